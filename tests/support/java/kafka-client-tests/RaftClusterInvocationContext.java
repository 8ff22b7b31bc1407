package org.apache.kafka.common.test.junit;

import java.util.List;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

/** Stands before Apache Kafka's class of this name: the cluster of each test is an Eosin. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int number) {
        return name + " [" + number + "]";
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        EosinCluster cluster = new EosinCluster(config, combined ? Type.CO_KRAFT : Type.KRAFT);
        ClusterInstance instance = cluster.instance();
        return List.of(
                (BeforeEachCallback) context -> {
                    if (combined && config.clusterTypes().contains(Type.KRAFT)) {
                        throw new TestAbortedException(EosinCluster.AGAIN);
                    }
                    if (config.isAutoStart()) {
                        cluster.start();
                    }
                },
                (AfterTestExecutionCallback) context -> cluster.stop(),
                new ClusterInstanceParameterResolver(instance));
    }
}
