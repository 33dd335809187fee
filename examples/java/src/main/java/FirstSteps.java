import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.annotation.JsonInclude;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * First steps: connect, make a container, store and read items, query, write a batch, follow changes.
 *
 * <pre>cd examples/java && mvn compile exec:java</pre>
 */
public final class FirstSteps {
    private static final String ENDPOINT = setting("ORRERY_ENDPOINT", "http://localhost:8081/");
    // The key that every emulator is known by; a server that listens on this machine only takes it.
    private static final String KEY = setting("ORRERY_KEY",
            "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==");

    private static final PartitionKey SUN = new PartitionKey("Sun");

    /** A planet or a moon. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    record Body(String id, String star, String kind, String name, Double au, Integer moons, String planet) {
        static Body planet(String name, double au, int moons) {
            return new Body(name.toLowerCase(Locale.ROOT), "Sun", "planet", name, au, moons, null);
        }

        static Body moon(String name, String planet) {
            return new Body(name.toLowerCase(Locale.ROOT), "Sun", "moon", name, null, null, planet);
        }
    }

    /** What was known before 1610, with the distance from the Sun in astronomical units. */
    private static final List<Body> PLANETS = List.of(
            Body.planet("Mercury", 0.39, 0), Body.planet("Venus", 0.72, 0), Body.planet("Earth", 1, 1),
            Body.planet("Mars", 1.52, 0), Body.planet("Jupiter", 5.2, 0), Body.planet("Saturn", 9.58, 0));

    public static void main(String[] arguments) {
        // The SDK speaks plain HTTP only to those who ask for it.
        System.setProperty("COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED", "true");
        try (var client = new CosmosClientBuilder().endpoint(ENDPOINT).key(KEY).gatewayMode().buildClient()) {
            run(client);
        }
    }

    private static void run(CosmosClient client) {
        // What an earlier run has left is removed.
        try {
            client.getDatabase("first-steps").delete();
        } catch (CosmosException error) {
            if (error.getStatusCode() != 404) {
                throw error;
            }
        }

        // A container needs a partition key: items that share its value can change in one transaction.
        client.createDatabase("first-steps");
        var database = client.getDatabase("first-steps");
        database.createContainer("bodies", "/star");
        var bodies = database.getContainer("bodies");

        // Items are JSON; `id` is the only property they must have.
        PLANETS.forEach(bodies::createItem);
        System.out.println("stored: " + PLANETS.stream().map(Body::name).collect(Collectors.joining(", ")));

        // The fastest way to an item is its id together with its partition key.
        var earth = bodies.readItem("earth", SUN, Body.class).getItem();
        System.out.printf("read: %s has %d moon%n", earth.name(), earth.moons());

        // A query, with a parameter instead of pasted text.
        var query = new SqlQuerySpec(
                "SELECT b.name, b.au FROM b WHERE b.kind = 'planet' AND b.au > @au ORDER BY b.au",
                new SqlParameter("@au", earth.au()));
        var beyond = bodies.queryItems(query, new CosmosQueryRequestOptions().setPartitionKey(SUN), Body.class);
        System.out.println("beyond Earth: " + beyond.stream()
                .map(body -> String.format(Locale.ROOT, "%s %.2f", body.name(), body.au()))
                .collect(Collectors.joining(", ")));

        // The change feed tells every change since the beginning, and where to go on.
        var first = changes(bodies,
                CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange()));
        System.out.printf("change feed: %d changes%n", first.names().size());

        // Galileo looks at Jupiter: four moons and their count are written together, or not at all.
        var batch = CosmosBatch.createCosmosBatch(SUN);
        for (var name : List.of("Io", "Europa", "Ganymede", "Callisto")) {
            batch.createItemOperation(Body.moon(name, "jupiter"));
        }
        batch.replaceItemOperation("jupiter", Body.planet("Jupiter", 5.2, 4));
        bodies.executeCosmosBatch(batch);
        var jupiter = bodies.readItem("jupiter", SUN, Body.class).getItem();
        System.out.printf("batch: %s has %d moons%n", jupiter.name(), jupiter.moons());

        // Io is there already: the whole batch is refused, and nothing of it remains.
        batch = CosmosBatch.createCosmosBatch(SUN);
        batch.createItemOperation(Body.planet("Vulcan", 0.14, 0));
        batch.createItemOperation(Body.moon("Io", "jupiter"));
        var refusal = bodies.executeCosmosBatch(batch).getResults().stream()
                .mapToInt(CosmosBatchOperationResult::getStatusCode)
                .filter(status -> status != 424).findFirst().orElseThrow();
        System.out.printf("batch refused with %d: there is %s Vulcan%n",
                refusal, exists(bodies, "vulcan") ? "a" : "no");

        // What has changed since.
        var since = changes(bodies,
                CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(first.position()));
        System.out.println("change feed: " + since.names().stream().sorted().collect(Collectors.joining(", ")));
    }

    /** Names out of the change feed, and where to go on. */
    private record Changes(List<String> names, String position) {}

    /** Reads the feed until there is nothing new. */
    private static Changes changes(CosmosContainer bodies, CosmosChangeFeedRequestOptions options) {
        var names = new ArrayList<String>();
        for (var page : bodies.queryChangeFeed(options, Body.class).iterableByPage()) {
            page.getResults().forEach(body -> names.add(body.name()));
            if (page.getResults().isEmpty()) {
                return new Changes(names, page.getContinuationToken());
            }
        }
        throw new IllegalStateException("a change feed has no end");
    }

    private static boolean exists(CosmosContainer bodies, String id) {
        try {
            return bodies.readItem(id, SUN, Body.class).getStatusCode() == 200;
        } catch (CosmosException error) {
            if (error.getStatusCode() == 404) {
                return false;
            }
            throw error;
        }
    }

    private static String setting(String name, String otherwise) {
        var value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }
}
