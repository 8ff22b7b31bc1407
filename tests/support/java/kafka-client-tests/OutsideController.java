package org.apache.kafka.common.test.junit;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import kafka.raft.KafkaRaftManager;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import scala.Option;

/** The controller of brokers that have none: nothing is ahead of what the brokers show. */
public final class OutsideController {
    private final EosinCluster cluster;

    OutsideController(EosinCluster cluster) {
        this.cluster = cluster;
    }

    public KafkaRaftManager<?> raftManager() {
        return Stand.in(KafkaRaftManager.class, this);
    }

    public RaftLog raftLog() {
        return Stand.in(RaftLog.class, this);
    }

    public LogOffsetMetadata endOffset() {
        return new LogOffsetMetadata(0);
    }

    public Option<?> authorizerPlugin() {
        return Option.empty();
    }

    public Controller controller() {
        return Stand.in(Controller.class, this);
    }

    public CompletableFuture<Map<String, Uuid>> findAllTopicIds(ControllerRequestContext asked) throws Exception {
        return CompletableFuture.completedFuture(cluster.ours().listTopics(new ListTopicsOptions().listInternal(true))
                .listings().get().stream().collect(Collectors.toMap(TopicListing::name, TopicListing::topicId)));
    }
}
