import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The Java client behind lines of JSON: requests on stdin, answers on stdout, one object per line. Each handle has a
 * thread of its own, so its requests are served in order and a call that blocks holds no other handle up. The protocol
 * and the operations are described in tests/support/real_clients (harness.py, remote.py).
 *
 * Compiled once against the oldest release that has what it calls; see Clients for what a still older one lacks.
 */
public final class Harness {
    /** A producer, a consumer or an admin client. */
    interface Handle {
        /** The result of one operation, as Gson writes it. */
        Object call(String op, JsonObject args) throws Exception;
    }

    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    private final PrintStream answers;
    private final Map<String, Handle> handles = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> threads = new HashMap<>();

    private Harness(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err); // whatever else prints must not break a line
        Harness harness = new Harness(answers);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            harness.accept(new JsonParser().parse(line).getAsJsonObject());
        }
        Runtime.getRuntime().halt(0); // clients that are still open have nobody left to answer
    }

    private void accept(JsonObject request) {
        String name = request.get("handle").getAsString();
        boolean last = request.get("op").getAsString().endsWith(".close");
        ExecutorService thread = threads.computeIfAbsent(name, each -> Executors.newSingleThreadExecutor());
        thread.execute(() -> answer(name, request));
        if (last) {
            threads.remove(name).shutdown();
        }
    }

    private void answer(String name, JsonObject request) {
        JsonObject answer = new JsonObject();
        answer.add("id", request.get("id"));
        try {
            String[] op = request.get("op").getAsString().split("\\.", 2);
            Object result = serve(name, op[0], op[1], request.getAsJsonObject("args"));
            answer.add("result", GSON.toJsonTree(result));
        } catch (Throwable failure) {
            answer.add("error", GSON.toJsonTree(Failure.of(failure)));
        }
        synchronized (answers) {
            answers.println(GSON.toJson(answer));
        }
    }

    private Object serve(String name, String kind, String op, JsonObject args) throws Exception {
        if (op.equals("open")) {
            handles.put(name, opened(kind, args));
            return null;
        }
        Handle handle = op.equals("close") ? handles.remove(name) : handles.get(name);
        if (handle == null) {
            return null; // it could not be opened, and that was told
        }
        return handle.call(op, args);
    }

    private Handle opened(String kind, JsonObject args) {
        switch (kind) {
            case "producer":
                return new ProducerHandle(args, name -> (ConsumerHandle) handles.get(name));
            case "consumer":
                return new ConsumerHandle(args);
            case "admin":
                return new AdminHandle(args);
            default:
                throw new IllegalArgumentException("no such kind of client: " + kind);
        }
    }
}
