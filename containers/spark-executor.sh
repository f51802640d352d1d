#!/bin/bash
# Begins an executor of Spark in a pod: kubernetes/spark-on-kubernetes.yaml. Spark's own image has a script for that; like that script, this
# one finds in the environment what Spark's driver says.
set -euo pipefail

options=()
number=0
while name=SPARK_JAVA_OPT_$number && [ -n "${!name+set}" ]; do
    options+=("${!name}")
    number=$((number + 1))
done
home=$(python -c 'from importlib.util import find_spec; print(find_spec("pyspark").submodule_search_locations[0])')
exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "$SPARK_CONF_DIR:${HADOOP_CONF_DIR:-$SPARK_CONF_DIR}:$home/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
