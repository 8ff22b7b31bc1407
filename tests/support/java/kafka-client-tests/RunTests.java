import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.UniqueId;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.opentest4j.TestAbortedException;

/**
 * Runs JUnit tests (arguments: class, or class#method; a test's name behind a minus sign leaves it out) and says of
 * each, in a line with tabs, what came of it.
 */
public final class RunTests implements TestExecutionListener, ExecutionCondition {
    private static final String DONE = "there is a result of it";
    private static final Set<String> done = new HashSet<>();
    private final Map<TestIdentifier, Long> started = new HashMap<>();

    public static void main(String[] names) {
        Arrays.stream(names).filter(each -> each.startsWith("-")).map(each -> each.substring(1)).forEach(done::add);
        var request = LauncherDiscoveryRequestBuilder.request()
                .selectors(Arrays.stream(names).filter(each -> !each.startsWith("-")).map(RunTests::selector).toList())
                .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
                .configurationParameter("junit.jupiter.execution.timeout.testtemplate.method.default", "240 s")
                .build();
        LauncherFactory.create().execute(request, new RunTests());
        System.out.println("\n## END");
        System.out.flush();
        System.exit(0); // what a test has left behind must not keep the others waiting
    }

    private static DiscoverySelector selector(String name) {
        int cut = name.indexOf('#');
        if (cut < 0) {
            return DiscoverySelectors.selectClass(name);
        }
        try { // templates take a cluster or nothing, and only their names are known here
            String simple = name.substring(cut + 1);
            Class<?> tests = Class.forName(name.substring(0, cut));
            for (Class<?> each = tests; each != null; each = each.getSuperclass()) {
                for (var method : each.getDeclaredMethods()) {
                    if (method.getName().equals(simple)) {
                        return DiscoverySelectors.selectMethod(tests, method);
                    }
                }
            }
            return DiscoverySelectors.selectMethod(name);
        } catch (ClassNotFoundException missing) {
            throw new IllegalArgumentException(name, missing);
        }
    }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext test) {
        return done.contains(name(UniqueId.parse(test.getUniqueId())))
                ? ConditionEvaluationResult.disabled(DONE) : ConditionEvaluationResult.enabled("");
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        started.put(test, System.nanoTime());
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        if (!reason.equals(DONE)) {
            say("SKIP", test, reason);
        }
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
        System.out.printf("%n## %s\t%.3f\t%s\t%s%n", outcome, seconds, name(test.getUniqueIdObject()), words);
        System.out.flush();
    }

    /** Class, method and, of a template, the number of the invocation. */
    private static String name(UniqueId test) {
        StringBuilder found = new StringBuilder();
        for (UniqueId.Segment each : test.getSegments()) {
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
