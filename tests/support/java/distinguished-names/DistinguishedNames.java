import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;

/** For each name on a line, hex of its DER: hex of what X500Principal.getName() makes of it, which is Apache Kafka's principal. */
public class DistinguishedNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String name = new X500Principal(HexFormat.of().parseHex(line)).getName();
            System.out.println(HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8)));
        }
    }
}
