import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;

/** An exception as the lines tell it. */
final class Failure {
    private Failure() {}

    static Map<String, Object> of(Throwable thrown) {
        Throwable top = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
        Errors error = protocolError(top);
        boolean known = error != Errors.UNKNOWN_SERVER_ERROR;
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("kind", kind(top));
        told.put("name", known ? error.name() : spelled(top.getClass().getSimpleName()));
        told.put("code", known ? error.code() : null);
        told.put("message", message(top));
        return told;
    }

    /** What an application does about it that follows the example in KafkaProducer's documentation. */
    private static String kind(Throwable top) {
        if (top instanceof ProducerFencedException
                || top instanceof OutOfOrderSequenceException
                || top instanceof AuthorizationException) {
            return "fatal";
        }
        if (top instanceof TimeoutException) {
            return "timeout";
        }
        if (top instanceof RetriableException) {
            return "retriable";
        }
        return top instanceof KafkaException ? "abortable" : "refused";
    }

    /** The first exception that stands for an error code: the producer wraps most of them, and only quotes some. */
    private static Errors protocolError(Throwable top) {
        for (Throwable each = top; each != null; each = each.getCause()) {
            Errors error = each instanceof ApiException ? Errors.forException(each) : quoted(each.getMessage());
            if (error != Errors.UNKNOWN_SERVER_ERROR) {
                return error;
            }
        }
        return Errors.UNKNOWN_SERVER_ERROR;
    }

    private static Errors quoted(String message) {
        for (Errors error : Errors.values()) {
            if (message != null && error != Errors.NONE && message.contains("; " + error.message())) {
                return error;
            }
        }
        return Errors.UNKNOWN_SERVER_ERROR;
    }

    /** CommitFailedException is COMMIT_FAILED. */
    private static String spelled(String exception) {
        String noun = exception.replaceAll("(Exception|Error)$", "");
        return noun.replaceAll("([a-z])([A-Z])", "$1_$2").toUpperCase();
    }

    private static String message(Throwable top) {
        if (top instanceof KafkaException) {
            return top + (top.getCause() == null ? "" : ", caused by " + top.getCause());
        }
        StringWriter trace = new StringWriter();
        top.printStackTrace(new PrintWriter(trace));
        return trace.toString();
    }
}
