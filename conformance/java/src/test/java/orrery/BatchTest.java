package orrery;

import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchItemRequestOptions;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosBulkOperationResponse;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Transactional batches, all or nothing; and bulk, each for itself. */
class BatchTest {
    @RegisterExtension static final Place place = new Place();

    private static final PartitionKey KEY = new PartitionKey("a");

    private static List<Integer> statuses(CosmosBatchResponse reply) {
        return reply.getResults().stream().map(CosmosBatchOperationResult::getStatusCode).toList();
    }

    private static int read(CosmosContainer container, String id) {
        return container.readItem(id, KEY, Item.class).getItem().n();
    }

    @Test
    void aBatchOfEveryKindOfOperation() {
        var container = place.container();
        for (var id : List.of("replaced", "patched", "deleted", "read")) {
            container.createItem(new Item(id, "a", 1));
        }
        var batch = CosmosBatch.createCosmosBatch(KEY);
        batch.createItemOperation(new Item("created", "a", 2));
        batch.upsertItemOperation(new Item("upserted", "a", 3));
        batch.replaceItemOperation("replaced", new Item("replaced", "a", 4));
        batch.patchItemOperation("patched", CosmosPatchOperations.create().increment("/n", 4));
        batch.deleteItemOperation("deleted");
        batch.readItemOperation("read");
        // A batch sees what it has written itself.
        batch.readItemOperation("created");
        var reply = container.executeCosmosBatch(batch);
        assertTrue(reply.isSuccessStatusCode());
        assertEquals(List.of(201, 201, 200, 200, 204, 200, 200), statuses(reply));
        assertEquals(2, reply.getResults().get(6).getItem(Item.class).n());
        assertNotNull(reply.getResults().get(0).getETag());
        assertNotNull(reply.getSessionToken());
        assertEquals(3, read(container, "upserted"));
        assertEquals(4, read(container, "replaced"));
        assertEquals(5, read(container, "patched"));
        fails(404, () -> read(container, "deleted"));
    }

    @Test
    void aBatchThatFailsLeavesNothing() {
        var container = place.container();
        container.createItem(new Item("there", "a", 1));
        var batch = CosmosBatch.createCosmosBatch(KEY);
        batch.createItemOperation(new Item("new", "a", 1));
        batch.createItemOperation(new Item("there", "a", 2));
        batch.deleteItemOperation("there");
        var reply = container.executeCosmosBatch(batch);
        assertFalse(reply.isSuccessStatusCode());
        assertEquals(409, reply.getStatusCode());
        assertEquals(List.of(424, 409, 424), statuses(reply));
        fails(404, () -> read(container, "new"));
        assertEquals(1, read(container, "there"));
    }

    @Test
    void aBatchChecksEtags() {
        var container = place.container();
        var stale = container.createItem(new Item("1", "a", 1)).getETag();
        container.upsertItem(new Item("1", "a", 2));
        var batch = CosmosBatch.createCosmosBatch(KEY);
        batch.replaceItemOperation(
                "1", new Item("1", "a", 3), new CosmosBatchItemRequestOptions().setIfMatchETag(stale));
        assertEquals(List.of(412), statuses(container.executeCosmosBatch(batch)));
        assertEquals(2, read(container, "1"));
    }

    @Test
    void aBatchInAHierarchicalPartition() {
        var container = place.container(c -> c.setPartitionKeyDefinition(Place.hierarchical("/a", "/b")));
        var batch = CosmosBatch.createCosmosBatch(new PartitionKeyBuilder().add("x").add(7).build());
        batch.createItemOperation(Map.of("id", "1", "a", "x", "b", 7));
        batch.readItemOperation("1");
        assertEquals(List.of(201, 200), statuses(container.executeCosmosBatch(batch)));
    }

    /** Runs one operation for each number, and counts the answers by status. */
    private static Map<Integer, Integer> bulk(CosmosContainer container, IntFunction<CosmosItemOperation> make) {
        var operations = IntStream.range(0, 250).mapToObj(make).toList();
        var counts = new TreeMap<Integer, Integer>();
        for (CosmosBulkOperationResponse<Object> each : container.executeBulkOperations(operations)) {
            assertNotNull(each.getResponse(), () -> "no answer: " + each.getException());
            counts.merge(each.getResponse().getStatusCode(), 1, Integer::sum);
        }
        return counts;
    }

    @Test
    void bulkOfEveryKindOverSeveralPhysicalPartitions() {
        var container = place.wide(3);
        IntFunction<Item> item = n -> new Item("" + n, "p" + n % 50, n);
        IntFunction<PartitionKey> key = n -> item.apply(n).key();
        assertEquals(
                Map.of(201, 250),
                bulk(container, n -> CosmosBulkOperations.getCreateItemOperation(item.apply(n), key.apply(n))));
        assertEquals(
                Map.of(409, 250),
                bulk(container, n -> CosmosBulkOperations.getCreateItemOperation(item.apply(n), key.apply(n))));
        assertEquals(
                Map.of(200, 250),
                bulk(container, n -> CosmosBulkOperations.getUpsertItemOperation(item.apply(n), key.apply(n))));
        assertEquals(
                Map.of(200, 250),
                bulk(container, n -> CosmosBulkOperations.getPatchItemOperation(
                        "" + n, key.apply(n), CosmosPatchOperations.create().increment("/n", 1000))));
        var sum = container.queryItems("SELECT VALUE SUM(c.n) FROM c", new CosmosQueryRequestOptions(), Double.class);
        assertEquals(250 * 249 / 2 + 250_000.0, sum.stream().findFirst().orElseThrow());
        assertEquals(
                Map.of(200, 250),
                bulk(container, n -> CosmosBulkOperations.getReadItemOperation("" + n, key.apply(n))));
        assertEquals(
                Map.of(200, 250),
                bulk(container, n -> CosmosBulkOperations.getReplaceItemOperation(
                        "" + n, item.apply(n), key.apply(n))));
        assertEquals(
                Map.of(204, 250),
                bulk(container, n -> CosmosBulkOperations.getDeleteItemOperation("" + n, key.apply(n))));
        assertEquals(
                Map.of(404, 250),
                bulk(container, n -> CosmosBulkOperations.getReadItemOperation("" + n, key.apply(n))));
    }
}
