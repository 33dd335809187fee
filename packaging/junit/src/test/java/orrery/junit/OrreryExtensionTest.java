package orrery.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.Locale;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Twenty tests with the extension, against an installed program. */
@ExtendWith(OrreryExtension.class)
class OrreryExtensionTest {
    private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private static OrreryServer first;

    static boolean isReady(String endpoint) throws Exception {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create(endpoint + "readyz")).build();
            return CLIENT.send(request, BodyHandlers.ofString()).statusCode() == 200;
        } catch (java.io.IOException gone) {
            return false;
        }
    }

    /** Sends a signed request; the link is what is signed. */
    private static String send(OrreryServer server, String path, String kind, String link, String body, int status, String... headers)
            throws Exception {
        String date = DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.ENGLISH).format(ZonedDateTime.now(ZoneOffset.UTC));
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(server.key()), "HmacSHA256"));
        String text = "post\n" + kind + "\n" + link + "\n" + date.toLowerCase(Locale.ROOT) + "\n\n";
        String signature = Base64.getEncoder().encodeToString(mac.doFinal(text.getBytes(StandardCharsets.UTF_8)));
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(server.endpoint() + path))
            .header("authorization", URLEncoder.encode("type=master&ver=1.0&sig=" + signature, StandardCharsets.UTF_8))
            .header("x-ms-date", date)
            .header("x-ms-version", "2020-07-15")
            .POST(HttpRequest.BodyPublishers.ofString(body));
        if (headers.length > 0) {
            request.headers(headers);
        }
        var answer = CLIENT.send(request.build(), BodyHandlers.ofString());
        assertEquals(status, answer.statusCode(), answer.body());
        return answer.body();
    }

    @Test
    void aServerStartsInUnderASecond() throws Exception {
        OrreryServer.start().close(); // The first start reads the program from the disk.
        long began = System.nanoTime();
        try (OrreryServer server = OrreryServer.start()) {
            long tookMs = (System.nanoTime() - began) / 1_000_000;
            System.out.println("started in " + tookMs + " ms");
            assertTrue(isReady(server.endpoint()));
            assertTrue(tookMs < 1000, tookMs + " ms");
        }
    }

    @Test
    void itIsReady(OrreryServer server) throws Exception {
        assertTrue(isReady(server.endpoint()));
    }

    @Test
    void allTestsShareOne(OrreryServer server) {
        first = first == null ? server : first;
        assertSame(first, server);
    }

    @Test
    void theConnectionStringHasEndpointAndKey(OrreryServer server) {
        assertEquals("AccountEndpoint=" + server.endpoint() + ";AccountKey=" + server.key() + ";", server.connectionString());
    }

    @Test
    void aClosedServerIsGone() throws Exception {
        OrreryServer server = OrreryServer.start();
        server.close();
        assertFalse(isReady(server.endpoint()));
    }

    @Test
    void dataOfAFolderOutlivesTheServer(@TempDir Path data) {
        for (int round = 0; round < 2; round++) {
            OrreryServer.start("--data", data.toString()).close();
        }
        assertTrue(Files.isDirectory(data.resolve("store")));
    }

    @Test
    void aWrongSettingIsOneSentence() {
        var error = assertThrows(IllegalStateException.class, () -> OrreryServer.start("--ranges", "0"));
        assertTrue(error.getMessage().contains("'ranges' is '0'"), error.getMessage());
    }

    @Test
    void aPortThatIsTakenIsNamed(OrreryServer server) {
        var error = assertThrows(IllegalStateException.class, () -> OrreryServer.start("--listen", "127.0.0.1:" + server.port()));
        assertTrue(error.getMessage().contains("in use"), error.getMessage());
    }

    @Test
    void aProgramThatIsMissingIsNamed() {
        var error = assertThrows(IllegalStateException.class, () -> OrreryServer.findProgram("/nowhere/orrery", ""));
        assertTrue(error.getMessage().contains("/nowhere/orrery"), error.getMessage());
        error = assertThrows(IllegalStateException.class, () -> OrreryServer.findProgram(null, "/nowhere"));
        assertTrue(error.getMessage().contains("put it into PATH"), error.getMessage());
    }

    /** The program of the process that the next test kills. */
    static final class Waiting {
        public static void main(String[] arguments) throws Exception {
            System.out.println(OrreryServer.start().endpoint());
            Thread.sleep(60_000);
        }
    }

    @Test
    void aTestThatIsKilledLeavesNoServerBehind() throws Exception {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Process test = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), Waiting.class.getName()).start();
        String endpoint = new BufferedReader(new InputStreamReader(test.getInputStream(), StandardCharsets.UTF_8)).readLine();
        assertTrue(isReady(endpoint));
        test.destroyForcibly().waitFor();
        for (int tries = 0; isReady(endpoint); tries++) {
            assertTrue(tries < 200, "the server lives on");
            Thread.sleep(50);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
    void itemsAreWrittenAndQueried(int number, OrreryServer server) throws Exception {
        String database = "dbs/test-" + number;
        send(server, "dbs", "dbs", "", "{\"id\":\"test-" + number + "\"}", 201);
        String definition = "{\"id\":\"items\",\"partitionKey\":{\"paths\":[\"/pk\"],\"kind\":\"Hash\"}}";
        send(server, database + "/colls", "colls", database, definition, 201);
        String items = database + "/colls/items";
        String[] key = {"x-ms-documentdb-partitionkey", "[\"a\"]"};
        send(server, items + "/docs", "docs", items, "{\"id\":\"1\",\"pk\":\"a\",\"number\":" + number + "}", 201, key);
        String found = send(server, items + "/docs", "docs", items, "{\"query\":\"SELECT VALUE c.number FROM c\"}", 200,
            key[0], key[1], "x-ms-documentdb-isquery", "true", "content-type", "application/query+json");
        assertTrue(found.contains("\"Documents\":[" + number + "]"), found);
    }
}
