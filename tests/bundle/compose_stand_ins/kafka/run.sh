#!/bin/sh
# What the entry point of Kafka's image does with its configuration: format once, then serve.
set -e
jars="$CLASSPATH:/opt/pid-quota/jars/kafka/*"
java -cp "$jars" kafka.tools.StorageTool format --ignore-formatted --cluster-id "$CLUSTER_ID" \
	--config /mnt/shared/config/server.properties
exec java -Xmx512m -cp "$jars" kafka.Kafka /mnt/shared/config/server.properties
