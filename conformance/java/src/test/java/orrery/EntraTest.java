package orrery;

import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.credential.AccessToken;
import com.azure.core.credential.TokenCredential;
import com.azure.core.credential.TokenRequestContext;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosTriggerProperties;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.TriggerOperation;
import com.azure.cosmos.models.TriggerType;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import reactor.core.publisher.Mono;

/**
 * Clients that sign in with tokens of a directory, on a server whose keys are switched off. The tokens are real: a
 * test issuer signs them, and the server reads its key set. {@code cargo xtask conformance java} starts both, and runs
 * this class over TLS only, in Gateway mode and in Direct mode.
 */
class EntraTest {
    private static final String ENDPOINT = System.getenv("ORRERY_ENTRA_ENDPOINT");
    private static final String ISSUER = System.getenv("ORRERY_ISSUER");
    private static final String ADMINISTRATOR = System.getenv("ORRERY_ADMINISTRATOR");
    private static final String READER = "00000000-0000-0000-0000-000000000001";
    private static final String CONTRIBUTOR = "00000000-0000-0000-0000-000000000002";
    private static final String ACTIONS = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/";
    private static final String OWN_SCOPE = "https://localhost/.default";
    private static final int HOUR_S = 3600;

    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String DATABASE = Place.unique("entra");
    private static final String READING = UUID.randomUUID().toString();
    private static final String WRITING = UUID.randomUUID().toString();
    private static final String AT_ORDERS = UUID.randomUUID().toString();

    private static CosmosClient administrator;
    private final List<CosmosClient> clients = new ArrayList<>();

    /** Gets the tokens of one principal, as a credential of azure-identity; the SDK keeps one while it seems valid. */
    private static final class IssuerCredential implements TokenCredential {
        private final String principal;
        private final int lifetimeS;
        /** Asked for in place of the SDK's, unless it is null. */
        private final String scope;

        final List<String> asked = new CopyOnWriteArrayList<>();

        IssuerCredential(String principal, int lifetimeS, String scope) {
            this.principal = principal;
            this.lifetimeS = lifetimeS;
            this.scope = scope;
        }

        IssuerCredential(String principal) {
            this(principal, HOUR_S, null);
        }

        @Override
        public Mono<AccessToken> getToken(TokenRequestContext request) {
            return Mono.fromCallable(() -> {
                asked.addAll(request.getScopes());
                var wanted = scope == null ? request.getScopes().get(0) : scope;
                return new AccessToken(token(principal, wanted, lifetimeS), OffsetDateTime.now().plusHours(1));
            });
        }
    }

    private static String token(String principal, String scope, int lifetimeS) {
        var asked = Map.of("principal", principal, "scope", scope, "lifetime", lifetimeS);
        var answer = send("POST", ISSUER + "token", asked);
        assertEquals(200, answer.statusCode(), answer.body());
        return parsed(answer.body()).get("access_token").asText();
    }

    private static HttpResponse<String> send(String method, String address, Object body, String... headers) {
        try {
            var publisher = body == null
                    ? HttpRequest.BodyPublishers.noBody()
                    : HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body));
            var request = HttpRequest.newBuilder(URI.create(address)).method(method, publisher);
            if (headers.length > 0) {
                request.headers(headers);
            }
            return HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException e) {
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    private static JsonNode parsed(String text) {
        try {
            return JSON.readTree(text);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Gives a role; the service has this in its management plane, so that no SDK has a method for it. */
    private static void assign(String role, String principal, String scope) {
        var assignment = Map.of("roleDefinitionId", role, "principalId", principal, "scope", scope);
        var authorization = "type=aad&ver=1.0&sig=" + token(ADMINISTRATOR, OWN_SCOPE, HOUR_S);
        var answer = send("POST", ENDPOINT + "_roleassignments", assignment, "authorization", authorization);
        assertEquals(201, answer.statusCode(), answer.body());
    }

    private static CosmosClient connect(TokenCredential credential) {
        return Place.builder().endpoint(ENDPOINT).credential(credential).buildClient();
    }

    private CosmosClient client(TokenCredential credential) {
        var client = connect(credential);
        clients.add(client);
        return client;
    }

    private CosmosContainer orders(String principal) {
        return client(new IssuerCredential(principal)).getDatabase(DATABASE).getContainer("orders");
    }

    @BeforeAll
    static void aDatabaseWithTwoContainersAndAPrincipalForEachOfSeveralRights() {
        administrator = connect(new IssuerCredential(ADMINISTRATOR));
        administrator.createDatabase(DATABASE);
        for (var id : List.of("orders", "other")) {
            administrator.getDatabase(DATABASE).createContainer(new CosmosContainerProperties(id, "/pk"));
            administrator.getDatabase(DATABASE).getContainer(id).createItem(new Item("first", "p", 1));
        }
        assign(READER, READING, "/dbs/" + DATABASE);
        assign(CONTRIBUTOR, WRITING, "/dbs/" + DATABASE);
        assign(CONTRIBUTOR, AT_ORDERS, "/dbs/" + DATABASE + "/colls/orders");
    }

    @AfterAll
    static void theDatabaseGoes() {
        administrator.getDatabase(DATABASE).delete();
        administrator.close();
    }

    @AfterEach
    void closed() {
        clients.forEach(CosmosClient::close);
    }

    private static List<String> ids(Stream<Item> items) {
        return items.map(Item::id).sorted().toList();
    }

    private static List<String> changes(CosmosContainer container, PartitionKey key) {
        var range = FeedRange.forLogicalPartition(key);
        var options = CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(range);
        var page = container.queryChangeFeed(options, Item.class).iterableByPage().iterator().next();
        return ids(page.getResults().stream());
    }

    private static int read(CosmosContainer container, String id, String key) {
        return container.readItem(id, new PartitionKey(key), Item.class).getItem().n();
    }

    @Test
    void aDataContributorReadsAndWritesItems() {
        var orders = orders(WRITING);
        var key = new PartitionKey("w");
        var created = orders.createItem(new Item("a", "w", 1));
        assertEquals(Place.DIRECT, created.getDiagnostics().toString().contains("rntbd://"));
        orders.upsertItem(new Item("b", "w", 2));
        orders.replaceItem(new Item("a", "w", 3), "a", key, new CosmosItemRequestOptions());
        orders.patchItem("a", key, CosmosPatchOperations.create().increment("/n", 4), Item.class);
        assertEquals(7, read(orders, "a", "w"));
        var batch = CosmosBatch.createCosmosBatch(key);
        batch.createItemOperation(new Item("c", "w", 5));
        batch.readItemOperation("a");
        batch.deleteItemOperation("b");
        var results = orders.executeCosmosBatch(batch).getResults();
        assertEquals(
                List.of(201, 200, 204),
                results.stream().map(CosmosBatchOperationResult::getStatusCode).toList());
        var query = "SELECT VALUE c.n FROM c WHERE c.pk = 'w' ORDER BY c.n";
        var rows = orders.queryItems(query, new CosmosQueryRequestOptions(), Integer.class);
        assertEquals(List.of(5, 7), rows.stream().toList());
        assertEquals(List.of("a", "c"), changes(orders, key));
        var many = Stream.of("a", "c").map(id -> new CosmosItemIdentity(key, id)).toList();
        assertEquals(List.of("a", "c"), ids(orders.readMany(many, Item.class).getResults().stream()));
        var deletes = Stream.of("a", "c").map(id -> CosmosBulkOperations.getDeleteItemOperation(id, key));
        for (var response : orders.executeBulkOperations(deletes.toList())) {
            assertEquals(204, response.getResponse().getStatusCode());
        }
        assertEquals(List.of(), orders.readAllItems(key, Item.class).stream().toList());
    }

    @Test
    void aDataReaderReadsAndIsRefusedEveryWriteByName() {
        var orders = orders(READING);
        var key = new PartitionKey("p");
        assertEquals(1, read(orders, "first", "p"));
        var rows = orders.queryItems("SELECT VALUE c.id FROM c", new CosmosQueryRequestOptions(), String.class);
        assertEquals(List.of("first"), rows.stream().toList());
        assertEquals(List.of("first"), changes(orders, key));
        var changed = new Item("first", "p", 2);
        var created = new Item("x", "p", 2);
        var options = new CosmosItemRequestOptions();
        var batch = CosmosBatch.createCosmosBatch(key);
        batch.readItemOperation("first");
        batch.createItemOperation(created);
        var patch = CosmosPatchOperations.create().set("/n", 2);
        record Call(String action, Executable run) {}
        for (var call : List.of(
                new Call("create", () -> orders.createItem(created)),
                new Call("replace", () -> orders.replaceItem(changed, "first", key, options)),
                new Call("upsert", () -> orders.upsertItem(changed)),
                new Call("replace", () -> orders.patchItem("first", key, patch, Item.class)),
                new Call("delete", () -> orders.deleteItem("first", key, options)),
                new Call("delete", () -> orders.deleteAllItemsByPartitionKey(key, options)),
                new Call("create", () -> orders.executeCosmosBatch(batch)))) {
            var error = refused(403, 5302, call.run);
            assertHas(error, "principal [" + READING + "] does not have required RBAC permissions to perform action ["
                    + ACTIONS + "items/" + call.action + "] on resource [dbs/" + DATABASE + "/colls/orders]");
        }
        assertEquals(1, read(orders, "first", "p"));
    }

    @Test
    void managementNeedsMoreThanAnyDataRole() {
        var client = client(new IssuerCredential(WRITING));
        var database = client.getDatabase(DATABASE);
        var orders = database.getContainer("orders");
        var trigger = new CosmosTriggerProperties("t", "function () {}")
                .setTriggerType(TriggerType.PRE)
                .setTriggerOperation(TriggerOperation.ALL);
        for (Executable call : List.<Executable>of(
                () -> client.createDatabase("none"),
                database::delete,
                () -> database.createContainer(new CosmosContainerProperties("none", "/pk")),
                orders::delete,
                () -> orders.getScripts().createTrigger(trigger),
                () -> database.createUser(new CosmosUserProperties().setId("u")),
                orders::readThroughput)) {
            assertHas(refused(403, 5300, call), "cannot be authorized by AAD token in data plane");
        }
        // What it may read of the catalog.
        assertEquals("orders", orders.read().getProperties().getId());
        var listed = database.readAllContainers().stream().map(CosmosContainerProperties::getId);
        assertEquals(List.of("orders", "other"), listed.sorted().toList());
    }

    @Test
    void aRoleAtAContainerEndsThere() {
        var client = client(new IssuerCredential(AT_ORDERS));
        var database = client.getDatabase(DATABASE);
        var own = database.getContainer("orders");
        own.createItem(new Item("own", "c", 1));
        own.deleteItem("own", new PartitionKey("c"), new CosmosItemRequestOptions());
        // The SDK reads the container first.
        refused(403, 5301, () -> read(database.getContainer("other"), "first", "p"));
        refused(403, 5301, () -> database.readAllContainers().stream().toList());
        refused(403, 5301, () -> client.readAllDatabases().stream().toList());
    }

    @Test
    void aPrincipalWithoutARoleAndAKeyOpenNothing() {
        var unknown = new IssuerCredential(UUID.randomUUID().toString());
        assertHas(refusedToOpen(403, 5301, () -> connect(unknown)), "readMetadata");
        var byKey = Place.builder().endpoint(ENDPOINT).key(Place.KEY);
        assertHas(refusedToOpen(401, 5202, byKey::buildClient), "Local Authorization is disabled.");
    }

    @Test
    void anExpiredTokenAndOneForAnotherAudienceAreRefused() {
        refusedToOpen(401, 5006, () -> connect(new IssuerCredential(WRITING, -HOUR_S, null)));
        var other = "https://cosmos.azure.com/.default";
        refusedToOpen(401, 5008, () -> connect(new IssuerCredential(WRITING, HOUR_S, other)));
    }

    @Test
    void theSdkAsksForTheServersOwnNameOrForTheScopeOfASetting() {
        var settings = new TreeMap<>(Map.of("", OWN_SCOPE, "https://db.example/.default", "https://db.example/.default"));
        settings.forEach((setting, expected) -> {
            var credential = new IssuerCredential(READING);
            System.setProperty("COSMOS.AAD_SCOPE_OVERRIDE", setting);
            try {
                var orders = client(credential).getDatabase(DATABASE).getContainer("orders");
                assertEquals(1, read(orders, "first", "p"));
            } finally {
                System.clearProperty("COSMOS.AAD_SCOPE_OVERRIDE");
            }
            // Kept, and not got for each request.
            assertEquals(List.of(expected), credential.asked);
        });
    }

    @Test
    void theIssuerChangesItsSigningKeyWhileClientsWork() {
        var old = orders(WRITING);
        var key = new PartitionKey("r");
        old.upsertItem(new Item("r", "r", 0));
        // Of both kinds in turn: RSA, then an elliptic curve, or the other way round.
        for (int n = 0; n < 2; n++) {
            assertEquals(200, send("POST", ISSUER + "keys", null).statusCode());
            Place.eventually(false, () -> isUnknown(ENDPOINT, token(WRITING, OWN_SCOPE, HOUR_S)));
            var renewed = orders(WRITING);
            old.upsertItem(new Item("r", "r", n));
            renewed.patchItem("r", key, CosmosPatchOperations.create().increment("/n", 10), Item.class);
            assertEquals(n + 10, read(old, "r", "r"), "the old key is still published");
            assertEquals(200, send("DELETE", ISSUER + "keys", null).statusCode());
            var outdated = old;
            Place.eventually(true, () -> isUnknown(outdated));
            assertEquals(n + 10, read(renewed, "r", "r"));
            old = renewed;
        }
        old.deleteItem("r", key, new CosmosItemRequestOptions());
        administrator.close();
        administrator = connect(new IssuerCredential(ADMINISTRATOR));
    }

    /** Whether the server has no key by which a token is signed. */
    private static boolean isUnknown(String endpoint, String token) {
        var answer = send("GET", endpoint, null, "authorization", "type=aad&ver=1.0&sig=" + token);
        if (answer.statusCode() == 200) {
            return false;
        }
        var subStatus = answer.headers().firstValue("x-ms-substatus").orElse("");
        assertEquals("401/5200", answer.statusCode() + "/" + subStatus, answer.body());
        return true;
    }

    /** The same of the token that a client has. */
    private static boolean isUnknown(CosmosContainer container) {
        try {
            read(container, "first", "p");
            return false;
        } catch (CosmosException e) {
            assertEquals("401/5200", e.getStatusCode() + "/" + e.getSubStatusCode(), e.getMessage());
            return true;
        }
    }

    private static CosmosException refused(int status, int subStatus, Executable call) {
        var error = fails(status, call);
        assertEquals(subStatus, error.getSubStatusCode(), error.getMessage());
        return error;
    }

    /** A client reads the account when it is made, and wraps what it is told. */
    private static CosmosException refusedToOpen(int status, int subStatus, Executable call) {
        var error = assertThrows(RuntimeException.class, call);
        var cause = assertInstanceOf(CosmosException.class, error.getCause());
        assertEquals(status, cause.getStatusCode(), cause.getMessage());
        assertEquals(subStatus, cause.getSubStatusCode(), cause.getMessage());
        return cause;
    }

    private static void assertHas(CosmosException error, String text) {
        assertTrue(error.getMessage().contains(text), error.getMessage());
    }
}
