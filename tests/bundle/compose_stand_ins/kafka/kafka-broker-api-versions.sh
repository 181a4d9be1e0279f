#!/bin/sh
# --bootstrap-server SERVERS: fails unless a broker answers. Kafka's own tool is in a jar that we do not fetch.
exec python -c "
import sys
from confluent_kafka.admin import AdminClient
AdminClient({'bootstrap.servers': sys.argv[1]}).list_topics(timeout=5)
" "$2"
