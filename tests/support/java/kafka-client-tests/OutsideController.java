package org.apache.kafka.common.test.junit;

import kafka.raft.KafkaRaftManager;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;

/** The controller of brokers that have none: nothing is ahead of what the brokers show. */
public final class OutsideController {
    public KafkaRaftManager<?> raftManager() {
        return Stand.in(KafkaRaftManager.class, this);
    }

    public RaftLog raftLog() {
        return Stand.in(RaftLog.class, this);
    }

    public LogOffsetMetadata endOffset() {
        return new LogOffsetMetadata(0);
    }
}
