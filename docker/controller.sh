#!/bin/sh
# One controller of the cluster in compose.cluster.yaml: Apache Kafka, by the lines of docs/cluster.md. The first start
# formats the directory.
#
#   NODE_ID=1001 CLUSTER_ID=... ADDRESS=controller-1:9093 CONTROLLERS=1001@controller-1:9093:DIRECTORY_ID,... sh controller.sh
set -eu
kafka=${KAFKA_HOME:-/opt/kafka}
data=${DATA_DIR:-/var/lib/kafka/data}
properties=$data/controller.properties

# 1001@controller-1:9093:DIRECTORY_ID,... without ids: what everybody asks first.
addresses=$(echo "$CONTROLLERS" | sed 's/[0-9]*@\([^,]*\):[^,:]*/\1/g')

cat >"$properties" <<END
process.roles=controller
node.id=$NODE_ID
listeners=CONTROLLER://$ADDRESS
advertised.listeners=CONTROLLER://$ADDRESS
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=$addresses
default.replication.factor=3
min.insync.replicas=2
log.dirs=$data/log
END
"$kafka/bin/kafka-storage.sh" format --ignore-formatted -t "$CLUSTER_ID" -c "$properties" \
    --initial-controllers "$CONTROLLERS"
exec "$kafka/bin/kafka-server-start.sh" "$properties"
