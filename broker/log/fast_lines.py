"""Recognises the two lines that make up nearly all of the log by one look at their bytes, without decoding them.

Whatever does not match is decoded and read by `broker.log.log_lines`; both ways say the same of a line (a test
compares).
"""

from __future__ import annotations

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
transaction of a batch. A PRODUCE line may be damaged behind the match: it is read when it is asked for."""

STATE_END = b')"}'
"""What a whole line of a batch ends with; it holds no text of a client."""
