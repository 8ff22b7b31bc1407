import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Writes every type of metadata record at every version with Apache Kafka's own classes, once with defaults and once
 * with every field that the version has. One line each: type, version, the bytes in hex, the record as JSON.
 */
public class MetadataRecords {
    private static int next = 1;

    public static void main(String[] arguments) throws Exception {
        for (MetadataRecordType type : MetadataRecordType.values())
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++) {
                write(type, version, type.newMetadataRecord());
                write(type, version, filled(type, version));
            }
    }

    private static ApiMessage filled(MetadataRecordType type, short version) throws Exception {
        List<Method> setters = setters(type.newMetadataRecord().getClass());
        List<Method> possible = new ArrayList<>();
        for (Method setter : setters) {
            ApiMessage alone = type.newMetadataRecord();
            set(alone, setter);
            try {
                serialized(alone, version);
                possible.add(setter);
            } catch (UnsupportedVersionException e) {
                // A field of a newer version.
            }
        }
        next = 1;
        ApiMessage record = type.newMetadataRecord();
        for (Method setter : possible)
            set(record, setter);
        return record;
    }

    private static List<Method> setters(Class<?> kind) {
        return Arrays.stream(kind.getDeclaredMethods())
            .filter(method -> method.getName().startsWith("set") && method.getParameterCount() == 1)
            .filter(method -> !List.of("setNext", "setPrev").contains(method.getName()))
            .sorted(Comparator.comparing(Method::getName)).toList();
    }

    private static void set(Object of, Method setter) throws Exception {
        setter.invoke(of, value(setter.getGenericParameterTypes()[0]));
    }

    @SuppressWarnings("unchecked")
    private static Object value(Type type) throws Exception {
        int number = next++;
        if (type == int.class) return number * 1000 + 1;
        if (type == long.class) return number * 10_000_000_000L;
        if (type == short.class) return (short) (number * 100);
        if (type == byte.class) return (byte) (number + 3);
        if (type == boolean.class) return true;
        if (type == double.class) return number + 0.25;
        if (type == String.class) return "text-" + number + "-\u00e9";
        if (type == Uuid.class) return new Uuid(number, ~number);
        if (type == byte[].class) return new byte[] {1, (byte) number, -1};
        if (type instanceof ParameterizedType list) {
            Type element = list.getActualTypeArguments()[0];
            return new ArrayList<>(List.of(elementOf(element), elementOf(element)));
        }
        Class<?> kind = (Class<?>) type;
        if (Collection.class.isAssignableFrom(kind)) {
            Collection<Object> collection = (Collection<Object>) kind.getDeclaredConstructor().newInstance();
            Class<?> element = (Class<?>) ((ParameterizedType) kind.getGenericSuperclass()).getActualTypeArguments()[0];
            collection.add(value(element));
            collection.add(value(element));
            return collection;
        }
        Object struct = kind.getDeclaredConstructor().newInstance();
        for (Method setter : setters(kind))
            set(struct, setter);
        return struct;
    }

    private static Object elementOf(Type type) throws Exception {
        if (type == Integer.class) return value(int.class);
        return value(type);
    }

    private static byte[] serialized(ApiMessage record, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ApiMessageAndVersion both = new ApiMessageAndVersion(record, version);
        int size = MetadataRecordSerde.INSTANCE.recordSize(both, cache);
        ByteBufferAccessor buffer = new ByteBufferAccessor(java.nio.ByteBuffer.allocate(size));
        MetadataRecordSerde.INSTANCE.write(both, cache, buffer);
        return buffer.buffer().array();
    }

    private static void write(MetadataRecordType type, short version, ApiMessage record) throws Exception {
        byte[] bytes = serialized(record, version);
        String name = record.getClass().getName();
        Class<?> converter = Class.forName(name + "JsonConverter");
        Method toJson = converter.getMethod("write", record.getClass(), short.class, boolean.class);
        JsonNode json = (JsonNode) toJson.invoke(null, record, version, true);
        System.out.println(String.join("\t", record.getClass().getSimpleName(), "" + version,
            HexFormat.of().formatHex(bytes), json.toString()));
    }
}
