package orrery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.azure.cosmos.models.ThroughputProperties;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Supplier;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.function.Executable;

/**
 * A database for the tests of one class, and clients of the server under test. {@code cargo xtask
 * conformance java} sets ORRERY_ENDPOINT, ORRERY_KEY and ORRERY_MODE, and makes a trust store of the
 * certificate that the server serves.
 */
final class Place implements BeforeAllCallback, AfterAllCallback {
    static final String ENDPOINT = required("ORRERY_ENDPOINT");
    static final String KEY = required("ORRERY_KEY");
    /** Whether items are read and written by frames and not over HTTP. */
    static final boolean DIRECT = "direct".equals(System.getenv("ORRERY_MODE"));

    private static CosmosClient client;
    private static CosmosAsyncClient asyncClient;

    CosmosDatabase database;

    private static String required(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            throw new IllegalStateException(name + " is not set; run `cargo xtask conformance java`");
        }
        return value;
    }

    /** How every client here begins. */
    static CosmosClientBuilder builder() {
        var builder = new CosmosClientBuilder().endpoint(ENDPOINT);
        return (DIRECT ? builder.directMode() : builder.gatewayMode())
                .consistencyLevel(ConsistencyLevel.SESSION)
                .contentResponseOnWriteEnabled(true);
    }

    /** A client is slow to make, so that all tests share one. */
    static synchronized CosmosClient client() {
        if (client == null) {
            client = builder().key(KEY).buildClient();
        }
        return client;
    }

    /** The change feed processor wants clients of the other kind. */
    static synchronized CosmosAsyncClient asyncClient() {
        if (asyncClient == null) {
            asyncClient = builder().key(KEY).buildAsyncClient();
        }
        return asyncClient;
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        String id = unique("java");
        client().createDatabase(id);
        database = client().getDatabase(id);
    }

    @Override
    public void afterAll(ExtensionContext context) {
        database.delete();
    }

    CosmosContainer container() {
        return container(properties -> {});
    }

    CosmosContainer container(Consumer<CosmosContainerProperties> change) {
        var properties = new CosmosContainerProperties(unique("c"), "/pk");
        change.accept(properties);
        database.createContainer(properties);
        return database.getContainer(properties.getId());
    }

    /** A container with several physical partitions. */
    CosmosContainer wide(int partitions) {
        return wide(partitions, properties -> {});
    }

    CosmosContainer wide(int partitions, Consumer<CosmosContainerProperties> change) {
        var properties = new CosmosContainerProperties(unique("c"), "/pk");
        change.accept(properties);
        database.createContainer(
                properties, ThroughputProperties.createManualThroughput(partitions * 6_000));
        return database.getContainer(properties.getId());
    }

    /** Splits the range of a container that holds most; the SDK has no method for it. */
    void split(CosmosContainer container) {
        var link = "dbs/" + database.getId() + "/colls/" + container.getId();
        var date = DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.US)
                .format(ZonedDateTime.now(ZoneOffset.UTC));
        try {
            var mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(Base64.getDecoder().decode(KEY), "HmacSHA256"));
            var signed = "post\ncolls\n" + link + "\n" + date.toLowerCase(Locale.ROOT) + "\n\n";
            var signature = Base64.getEncoder().encodeToString(mac.doFinal(signed.getBytes(StandardCharsets.UTF_8)));
            var authorization = URLEncoder.encode("type=master&ver=1.0&sig=" + signature, StandardCharsets.UTF_8);
            var request = HttpRequest.newBuilder(URI.create(ENDPOINT + link + "/operations/split"))
                    .header("authorization", authorization)
                    .header("x-ms-date", date)
                    .header("x-ms-version", "2020-07-15")
                    .POST(HttpRequest.BodyPublishers.noBody())
                    .build();
            var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
            assertEquals(200, answer.statusCode(), answer.body());
        } catch (IOException | GeneralSecurityException e) {
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    static PartitionKeyDefinition hierarchical(String... paths) {
        return new PartitionKeyDefinition()
                .setKind(PartitionKind.MULTI_HASH)
                .setVersion(PartitionKeyDefinitionVersion.V2)
                .setPaths(List.of(paths));
    }

    static String unique(String prefix) {
        return prefix + "-" + UUID.randomUUID().toString().substring(0, 8);
    }

    /** The call must fail with this status and a message that says why. */
    static CosmosException fails(int status, Executable call) {
        var error = assertThrows(CosmosException.class, call);
        assertEquals(status, error.getStatusCode(), error.getMessage());
        assertTrue(error.getShortMessage().length() > 0, "an error has a message");
        assertTrue(error.getActivityId().length() > 0, "an error has an activity id");
        return error;
    }

    /** Asks until the answer is as expected, or fails with the last one. */
    static <T> void eventually(T expected, Supplier<T> ask) {
        var deadline = Instant.now().plus(Duration.ofSeconds(30));
        T last = ask.get();
        while (!expected.equals(last) && Instant.now().isBefore(deadline)) {
            try {
                Thread.sleep(50);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            last = ask.get();
        }
        assertEquals(expected, last);
    }
}
