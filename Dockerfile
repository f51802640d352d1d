# Images of Walferry. docs/containers.md says how they are used, and how a tag is pinned to a digest.
#
#   walferry   Airflow, Spark and Walferry: every service of docker-compose.yaml but the database, and the pods of kubernetes/
#   hbase      the same with HBase, to play with: profile `hbase` of docker-compose.yaml

FROM python:3.11.15-slim-bookworm AS base
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1

# What pip installs. This stage's pip installs into an environment that has no pip of its own.
FROM base AS build
COPY containers/requirements.lock /build/
WORKDIR /build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# PySpark and its client are published as source only, without anything to compile. They are built with the setuptools of the lock.
RUN python -m venv --without-pip /opt/venv \
    && grep '^setuptools==' requirements.lock > setuptools.lock \
    && pip --python /opt/venv/bin/python install --require-hashes --only-binary=:all: -r setuptools.lock \
    && pip --python /opt/venv/bin/python install --require-hashes --only-binary=:all: --no-binary=pyspark,pyspark-client \
        --no-build-isolation -r requirements.lock
COPY pyproject.toml MANIFEST.in README.md CHANGELOG.md requirements.txt requirements.lock /build/
COPY plugins /build/plugins
COPY dags /build/dags
COPY spark_jobs /build/spark_jobs
COPY monitoring /build/monitoring
RUN pip --python /opt/venv/bin/python install --no-deps --no-build-isolation /build \
    && /opt/venv/bin/walferry compile

FROM base AS walferry
# Debian's mirrors keep only the newest build of a package, so a version that is named here would soon be gone.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless krb5-user procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 50000 --gid 0 --home-dir /opt/airflow --create-home --shell /usr/sbin/nologin airflow \
    && mkdir /opt/airflow/logs /opt/airflow/cache /hbase \
    && chown -R 50000:0 /opt/airflow /hbase \
    && chmod -R g=u /opt/airflow /hbase
COPY --from=build /opt/venv /opt/venv
COPY dags /opt/airflow/dags
# At this path Airflow's chart looks for it.
COPY containers/entrypoint.sh /entrypoint
COPY containers/health.py containers/spark-executor.sh /opt/walferry/
COPY containers/spark /opt/walferry/spark
ENV PATH=/opt/venv/bin:$PATH \
    AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/airflow/dags \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    WALFERRY_CACHE=/opt/airflow/cache \
    SPARK_CONF_DIR=/opt/walferry/spark \
    PYSPARK_PYTHON=/opt/venv/bin/python
WORKDIR /opt/airflow
# By number, so that Kubernetes can see that it is not root.
USER 50000:0
ENTRYPOINT ["/usr/bin/tini", "--", "/entrypoint"]
CMD ["airflow", "version"]

# HBase's jars, whose digests are in embedded/jars.lock, and the classes of `play.py`. Compiling these needs a JDK, here only.
FROM base AS jars
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jdk-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/venv /opt/venv
COPY embedded /opt/hbase/embedded
ENV PATH=/opt/venv/bin:$PATH \
    XDG_CACHE_HOME=/opt/hbase/cache
WORKDIR /opt/hbase
RUN python -m embedded hbase-2 \
    && ln -s "$(python -c 'from embedded.jars import hbase_classpath; print(hbase_classpath()[0].parent)')" lib \
    && chmod -R a+rX cache

FROM walferry AS hbase
COPY --from=jars /opt/hbase /opt/hbase
COPY containers/hbase-site.xml /opt/hbase/conf/
COPY containers/hbase.sh containers/play.py /opt/walferry/
ENV XDG_CACHE_HOME=/opt/hbase/cache \
    PYTHONPATH=/opt/hbase
WORKDIR /tmp
