import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.UniqueId;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.opentest4j.TestAbortedException;

/** Runs JUnit tests (arguments: class, or class#method) and says of each, in a line with tabs, what came of it. */
final class RunTests implements TestExecutionListener {
    private final Map<TestIdentifier, Long> started = new HashMap<>();

    public static void main(String[] names) {
        var request = LauncherDiscoveryRequestBuilder.request()
                .selectors(Arrays.stream(names).map(RunTests::selector).toList())
                .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
                .configurationParameter("junit.jupiter.execution.timeout.testtemplate.method.default", "240 s")
                .build();
        LauncherFactory.create().execute(request, new RunTests());
        System.exit(0); // what a test has left behind must not keep the others waiting
    }

    private static DiscoverySelector selector(String name) {
        int cut = name.indexOf('#');
        if (cut < 0) {
            return DiscoverySelectors.selectClass(name);
        }
        try { // templates take a cluster or nothing, and only their names are known here
            String simple = name.substring(cut + 1);
            for (var method : Class.forName(name.substring(0, cut)).getMethods()) {
                if (method.getName().equals(simple)) {
                    return DiscoverySelectors.selectMethod(method.getDeclaringClass(), method);
                }
            }
            return DiscoverySelectors.selectMethod(name);
        } catch (ClassNotFoundException missing) {
            throw new IllegalArgumentException(name, missing);
        }
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        started.put(test, System.nanoTime());
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        say("SKIP", test, reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        Optional<Throwable> thrown = result.getThrowable();
        if (test.isTest() || thrown.isPresent()) {
            Optional<Throwable> aborted = thrown.flatMap(RunTests::aborting);
            boolean passed = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
            thrown.filter(each -> aborted.isEmpty()).ifPresent(each -> each.printStackTrace(System.out));
            say(passed ? "PASS" : aborted.isPresent() ? "SKIP" : "FAIL", test, aborted.or(() -> thrown)
                    .map(each -> each instanceof TestAbortedException ? each.getMessage() : each.toString()).orElse(""));
        }
    }

    /** The wish to leave a test out, which helpers of tests wrap in failures of their own. */
    private static Optional<Throwable> aborting(Throwable thrown) {
        for (Throwable each = thrown; each != null; each = each.getCause()) {
            if (each instanceof TestAbortedException) {
                return Optional.of(each);
            }
        }
        return Optional.empty();
    }

    private void say(String outcome, TestIdentifier test, String why) {
        double seconds = (System.nanoTime() - started.getOrDefault(test, System.nanoTime())) / 1e9;
        String words = why == null ? "" : why.replaceAll("\\s+", " ").strip();
        System.out.printf("%n## %s\t%.3f\t%s\t%s%n", outcome, seconds, name(test), words);
        System.out.flush();
    }

    /** Class, method and, of a template, the number of the invocation. */
    private static String name(TestIdentifier test) {
        StringBuilder found = new StringBuilder();
        for (UniqueId.Segment each : test.getUniqueIdObject().getSegments()) {
            String value = each.getValue();
            switch (each.getType()) {
                case "class" -> found.append(value.substring(value.lastIndexOf('.') + 1));
                case "nested-class" -> found.append('.').append(value);
                case "method", "test-template" -> found.append(' ').append(value, 0, value.indexOf('('));
                case "test-template-invocation" -> found.append(' ').append(value.substring(1));
                default -> { }
            }
        }
        return found.toString();
    }
}
