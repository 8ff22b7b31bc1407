import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Reads values of metadata records in hex, one a line, and makes Apache Kafka's image of them; an empty line ends a
 * batch. Writes the image as the records of a snapshot, one a line in hex.
 */
public class MetadataImages {
    public static void main(String[] arguments) throws Exception {
        MetadataImage image = MetadataImage.EMPTY;
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        long offset = -1;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.isEmpty()) {
                image = delta.apply(new MetadataProvenance(offset, 1, 0, true));
                delta = new MetadataDelta.Builder().setImage(image).build();
                continue;
            }
            byte[] value = HexFormat.of().parseHex(line);
            ByteBufferAccessor buffer = new ByteBufferAccessor(ByteBuffer.wrap(value));
            delta.replay(MetadataRecordSerde.INSTANCE.read(buffer, value.length).message());
            offset++;
        }
        image = delta.apply(new MetadataProvenance(offset, 1, 0, true));
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, new ImageWriterOptions.Builder(image.features().metadataVersionOrThrow())
            .setEligibleLeaderReplicasEnabled(true).build());
        for (ApiMessageAndVersion record : writer.records()) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBufferAccessor buffer =
                new ByteBufferAccessor(ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache)));
            MetadataRecordSerde.INSTANCE.write(record, cache, buffer);
            System.out.println(HexFormat.of().formatHex(buffer.buffer().array()));
        }
    }
}
