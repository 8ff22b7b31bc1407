import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * Apache Kafka's command line tools, one after the other in one process: requests on stdin, answers on stdout, as
 * tests/support/real_clients/harness.py has them. `tool.run` {tool, arguments, input} calls the tool's main method as
 * its script does; the result is what it wrote to stdout and stderr, and its exit code.
 */
public final class Tools {
    /** How a tool that ends its process is stopped instead. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;
    }

    /** With what the present tool wanted to end the process; one that catches everything may ask for it again. */
    private static Integer code;

    /** What the present tool wants to have done at its end. */
    private static final List<Runnable> hooks = new ArrayList<>();

    private static void end(int wanted) {
        code = code == null ? wanted : code;
        throw new Ended();
    }

    /** Where the tools' output goes; Scala takes hold of System.out once and for all. */
    private static final class Switch extends OutputStream {
        private volatile OutputStream to;

        private Switch(OutputStream to) {
            this.to = to;
        }

        @Override
        public void write(int each) throws IOException {
            to.write(each);
        }

        @Override
        public void write(byte[] bytes, int start, int length) throws IOException {
            to.write(bytes, start, length);
        }
    }

    public static void main(String[] given) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        PrintStream log = System.err;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Switch out = new Switch(log);
        Switch err = new Switch(log);
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        onExit("setExitProcedure", called -> end((Integer) called[0]));
        onExit("setHaltProcedure", called -> end((Integer) called[0]));
        onExit("setShutdownHookAdder", called -> hooks.add((Runnable) called[1])); // the process outlives the tool
        ObjectMapper json = new ObjectMapper();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = json.readTree(line);
            JsonNode args = request.get("args");
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            ByteArrayOutputStream told = new ByteArrayOutputStream();
            out.to = written;
            err.to = told;
            ObjectNode answer = json.createObjectNode();
            answer.set("id", request.get("id"));
            ObjectNode result = answer.putObject("result");
            try {
                result.put("code", run(args, json));
            } finally {
                System.out.flush();
                System.err.flush();
                out.to = log;
                err.to = log;
            }
            result.put("out", written.toString("UTF-8"));
            result.put("err", told.toString("UTF-8"));
            answers.println(json.writeValueAsString(answer));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Have something done in place of what ends a process; 4.4 has moved the class to another package. */
    private static void onExit(String setter, Consumer<Object[]> action) throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException before) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        for (Method method : exit.getMethods())
            if (method.getName().equals(setter)) {
                Class<?> kind = method.getParameterTypes()[0];
                method.invoke(null, Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, (proxy, of, called) -> {
                    action.accept(called);
                    return null;
                }));
            }
    }

    private static int run(JsonNode args, ObjectMapper json) throws Exception {
        byte[] input = args.get("input").asText().getBytes(StandardCharsets.UTF_8);
        InputStream before = System.in;
        code = null;
        System.setIn(new ByteArrayInputStream(input));
        String[] arguments = json.convertValue(args.get("arguments"), String[].class);
        try {
            Class.forName(args.get("tool").asText()).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
                return 1;
            }
        } finally {
            hooks.forEach(Runnable::run);
            hooks.clear();
            System.setIn(before);
        }
        return code == null ? 0 : code;
    }
}
