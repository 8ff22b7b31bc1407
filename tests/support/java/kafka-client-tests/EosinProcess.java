package org.apache.kafka.common.test.junit;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.opentest4j.TestAbortedException;

/** One process of Eosin in a folder, with what it has said; and waiting, for it and for others. */
final class EosinProcess {
    static final String READY = "ready";
    /** An option after which it says in that file that it is ready, and not on its standard output. */
    static final String READY_FILE = "--ready-file";
    private static final String PYTHON = System.getProperty("eosin.python");
    private static final Duration LONGEST = Duration.ofSeconds(60);
    private static final Duration PAUSE = Duration.ofMillis(20);

    private final Path ready;
    private final Path log;
    private final Process process;

    EosinProcess(Path folder, List<String> arguments) throws IOException {
        ready = folder.resolve(READY);
        log = folder.resolve("log");
        Files.deleteIfExists(ready);
        List<String> command = new ArrayList<>(List.of(PYTHON, "-m", "eosin.cli"));
        command.addAll(arguments);
        process = new ProcessBuilder(command)
                .redirectOutput((arguments.contains(READY_FILE) ? log : ready).toFile())
                .redirectError(log.toFile())
                .start();
    }

    /** What it says when it is ready, for which this waits. */
    String ready() throws Exception {
        return waitFor("ready line", () -> {
            if (!process.isAlive()) {
                throw new TestAbortedException("Eosin does not start with its settings: " + lastLine());
            }
            String text = Files.exists(ready) ? Files.readString(ready) : "";
            return text.endsWith("\n") ? text : null;
        });
    }

    /** The address in such a line, of a broker that has one listener. */
    static String address(String said) {
        return said.replaceFirst("(?s).* ready on ([^ ,]+).*", "$1");
    }

    void end() throws InterruptedException {
        process.destroy();
        if (!process.waitFor(LONGEST.toSeconds(), TimeUnit.SECONDS)) {
            kill();
        }
    }

    void kill() throws InterruptedException {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly().waitFor();
    }

    private String lastLine() throws IOException {
        List<String> lines = Files.exists(log) ? Files.readAllLines(log) : List.of();
        return lines.isEmpty() ? "" : lines.get(lines.size() - 1);
    }

    interface Question<T> {
        /** Null: not yet. */
        T ask() throws Exception;
    }

    static <T> T waitFor(String what, Question<T> question) throws Exception {
        Instant end = Instant.now().plus(LONGEST);
        while (Instant.now().isBefore(end)) {
            T answer = question.ask();
            if (answer != null) {
                return answer;
            }
            Thread.sleep(PAUSE.toMillis());
        }
        throw new AssertionError("in vain waited for " + what);
    }
}
