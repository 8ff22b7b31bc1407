"""Kafka's broker settings that Eosin knows and does not use, so that a Kafka properties file can be used as it is.

They are listed one by one, because a prefix would swallow the spelling mistakes behind it.
"""

from typing import Final

UNUSED_PREFIXES: Final = ("sasl.",)
"""Families whose names are open."""

_NAMES: Final = """
add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms alter.config.policy.class.name
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
auto.include.jmx.reporter auto.leader.rebalance.enable background.threads broker.id.generation.enable
client.quota.callback.class
control.plane.listener.name controlled.shutdown.enable controlled.shutdown.max.retries
controlled.shutdown.retry.backoff.ms controller.performance.always.log.threshold.ms
controller.performance.sample.period.ms controller.quorum.append.linger.ms controller.quorum.auto.join.enable
controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms controller.quota.window.num
controller.quota.window.size.seconds create.topic.policy.class.name delegation.token.expiry.check.interval.ms
delegation.token.expiry.time.ms delegation.token.master.key delegation.token.max.lifetime.ms
delegation.token.secret.key delete.records.purgatory.purge.interval.requests early.start.listeners
fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
group.coordinator.append.linger.ms group.coordinator.append.max.buffer.size group.coordinator.background.threads
group.coordinator.cached.buffer.max.bytes group.coordinator.new.enable group.coordinator.threads
group.share.enable group.share.max.groups group.share.persister.class.name
inter.broker.protocol.version internal.log.cleaner.threads
kafka.metrics.polling.interval.secs kafka.metrics.reporters leader.imbalance.check.interval.seconds
leader.imbalance.per.broker.percentage log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
log.cleaner.threads log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms
log.initial.task.delay.ms log.local.retention.bytes log.local.retention.ms log.message.downconversion.enable
log.message.format.version log.message.timestamp.difference.max.ms
max.request.partition.size.limit message.downconversion.enable metadata.log.dir
metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
metadata.log.segment.min.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
metadata.max.retention.ms metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads
offsets.commit.required.acks offsets.load.buffer.size offsets.topic.compression.codec.level
password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret principal.builder.class
producer.purgatory.purge.interval.requests queued.max.requests
remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
remote.log.storage.manager.class.name remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
remote.log.storage.system.enable replica.socket.receive.buffer.bytes
replication.quota.window.num replication.quota.window.size.seconds reserved.broker.max.id security.providers
server.max.startup.time.ms share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
share.coordinator.load.buffer.size share.coordinator.threads share.fetch.purgatory.purge.interval.requests
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
ssl.keymanager.algorithm ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
telemetry.max.bytes
transaction.state.log.load.buffer.size unclean.leader.election.interval.ms unstable.api.versions.enable
unstable.feature.versions.enable zookeeper.connect zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
zookeeper.metadata.migration.enable zookeeper.session.timeout.ms zookeeper.set.acl
"""

UNUSED: Final = frozenset(_NAMES.split())


def is_unused(key: str) -> bool:
    """True if Kafka has this key and Eosin ignores it."""
    return key in UNUSED or key.startswith(UNUSED_PREFIXES)


_DYNAMIC: Final = """
background.threads follower.replication.throttled.rate
group.coordinator.cached.buffer.max.bytes leader.replication.throttled.rate log.cleaner.io.buffer.load.factor
log.cleaner.io.buffer.size log.cleaner.threads log.local.retention.bytes log.local.retention.ms
metric.reporters num.io.threads
num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers remote.fetch.max.wait.ms
remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.follower.thread.pool.size remote.log.reader.threads replica.alter.log.dirs.io.max.bytes.per.second
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter
"""

DYNAMIC_UNUSED: Final = frozenset(_DYNAMIC.split())
"""The keys among them that Apache Kafka changes without a restart, and the throttles that its tools set."""
