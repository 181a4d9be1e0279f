#!/bin/sh
# --bootstrap-server SERVERS --create --if-not-exists --topic NAME --partitions N, in this order.
exec python -c "
import sys
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
admin = AdminClient({'bootstrap.servers': sys.argv[1]})
if sys.argv[2] not in admin.list_topics(timeout=15).topics:
    admin.create_topics([NewTopic(sys.argv[2], int(sys.argv[3]), 1)])[sys.argv[2]].result(15)
" "$2" "$6" "$8"
