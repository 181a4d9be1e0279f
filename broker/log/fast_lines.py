"""Matches the two kinds of lines that make up nearly all of the log, without decoding them.

All others are decoded and parsed by `broker.log.log_lines`. A test checks that both agree.
"""

import re

FAST_LINE = re.compile(
    rb'\{(?:"sn":(\d{1,18}),)?"ts":(\d{1,15}),"thread":"([^"\\]{1,200})","logger":"(?:'
    rb'KafkaApis","message":"\[KafkaApi-(\d{1,10})\] Handling request:RequestHeader\(apiKey=PRODUCE, '
    rb'|ProducerStateManager","message":"\[ProducerStateManager partition=([A-Za-z0-9._-]{1,249})-(\d{1,10})\] '
    rb"Updated producer (-?\d{1,19}) state to ProducerAppendInfo\(producerId=-?\d{1,19}, producerEpoch=(-?\d{1,6}), "
    rb"firstSequence=(-?\d{1,10}), lastSequence=-?\d{1,10}, "
    rb"currentTxnFirstOffset=OptionalLong(\.empty|\[\d{1,19}\]), coordinatorEpoch=-?\d{1,10}, )"
)
"""Groups: number, time, thread; broker of a PRODUCE line; topic, partition, id, epoch, first sequence, open
transaction of a batch. A PRODUCE line may be damaged after the match: its rest is parsed lazily."""

STATE_END = b')"}'
"""End of a complete line of a batch, which holds no client text."""
