package orrery;

import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Items: their life, the keys they live under, etags, and what must be refused. */
class ItemTest {
    @RegisterExtension static final Place place = new Place();

    private static int read(CosmosContainer container, String id, String key) {
        return container.readItem(id, new PartitionKey(key), Item.class).getItem().n();
    }

    @Test
    void anItemIsCreatedReadReplacedUpsertedAndDeleted() {
        var container = place.container();
        var created = container.createItem(new Item("1", "a", 1));
        assertEquals(201, created.getStatusCode());
        assertTrue(created.getRequestCharge() > 0);
        assertEquals(1, read(container, "1", "a"));
        var replaced = container.replaceItem(new Item("1", "a", 2), "1", new PartitionKey("a"), null);
        assertEquals(2, replaced.getItem().n());
        assertNotEquals(created.getETag(), replaced.getETag());
        assertEquals(200, container.upsertItem(new Item("1", "a", 3)).getStatusCode());
        assertEquals(201, container.upsertItem(new Item("2", "a", 4)).getStatusCode());
        assertEquals(3, read(container, "1", "a"));
        assertEquals(204, container.deleteItem("1", new PartitionKey("a"), null).getStatusCode());
        fails(404, () -> read(container, "1", "a"));
    }

    @Test
    void whatIsThereAlreadyAndWhatIsMissing() {
        var container = place.container();
        container.createItem(new Item("1", "a", 1));
        fails(409, () -> container.createItem(new Item("1", "a", 2)));
        assertEquals(1, read(container, "1", "a"));
        var key = new PartitionKey("a");
        fails(404, () -> container.replaceItem(new Item("2", "a", 1), "2", key, null));
        fails(404, () -> container.deleteItem("2", key, null));
    }

    @Test
    void partitionKeysOfEveryType() {
        var container = place.container();
        var keys = new HashMap<String, PartitionKey>();
        var values = new HashMap<String, Object>();
        for (Object value : new Object[] {"é/?#ß", -1.5, 9_007_199_254_740_991L, true}) {
            keys.put("id " + value.hashCode(), new PartitionKey(value));
            values.put("id " + value.hashCode(), value);
        }
        keys.put("null", new PartitionKeyBuilder().addNullValue().build());
        values.put("null", null);
        keys.put("none", PartitionKey.NONE);
        for (var id : keys.keySet()) {
            var item = new HashMap<String, Object>(Map.of("id", id));
            if (values.containsKey(id)) {
                item.put("pk", values.get(id));
            }
            container.createItem(item, keys.get(id), null);
            assertEquals(id, container.readItem(id, keys.get(id), JsonNode.class).getItem().get("id").asText());
        }
    }

    @Test
    void aKeyThatIsNotTheItemsIsRefused() {
        var container = place.container();
        var error = fails(400, () -> container.createItem(new Item("1", "a", 1), new PartitionKey("b"), null));
        assertEquals(1001, error.getSubStatusCode());
    }

    @Test
    void aHierarchicalKeyLeadsToItsItem() {
        var container = place.container(
                c -> c.setPartitionKeyDefinition(Place.hierarchical("/tenant", "/user")));
        container.createItem(Map.of("id", "1", "tenant", "contoso", "user", 7));
        var key = new PartitionKeyBuilder().add("contoso").add(7).build();
        assertEquals(200, container.readItem("1", key, JsonNode.class).getStatusCode());
        var other = new PartitionKeyBuilder().add("contoso").add(8).build();
        fails(404, () -> container.readItem("1", other, JsonNode.class));
    }

    @Test
    void anEtagGuardsAgainstLostUpdates() {
        var container = place.container();
        var key = new PartitionKey("a");
        var first = container.createItem(new Item("1", "a", 1)).getETag();
        var item = new Item("1", "a", 2);
        var options = new CosmosItemRequestOptions().setIfMatchETag(first);
        container.replaceItem(item, "1", key, options);
        fails(412, () -> container.replaceItem(item, "1", key, options));
        fails(412, () -> container.upsertItem(item, options));
        fails(412, () -> container.deleteItem("1", key, options));
        assertEquals(2, read(container, "1", "a"));
    }

    @Test
    void anItemThatIsKnownIsNotSentAgain() {
        var container = place.container();
        var etag = container.createItem(new Item("1", "a", 1)).getETag();
        var options = new CosmosItemRequestOptions().setIfNoneMatchETag(etag);
        assertEquals(304, container.readItem("1", new PartitionKey("a"), options, Item.class).getStatusCode());
    }

    @Test
    void aWriteAnswersWithoutTheItemWhenAsked() {
        var container = place.container();
        var options = new CosmosItemRequestOptions().setContentResponseOnWriteEnabled(false);
        var reply = container.createItem(new Item("1", "a", 1), new PartitionKey("a"), options);
        assertNull(reply.getItem());
        assertEquals(1, read(container, "1", "a"));
    }

    @Test
    void aBadItemIsRefused() {
        var container = place.container();
        var key = new PartitionKey("a");
        fails(400, () -> container.createItem(Map.of("id", 7, "pk", "a"), key, null));
        fails(400, () -> container.createItem(Map.of("id", "x".repeat(1024), "pk", "a"), key, null));
        var large = Map.of("id", "1", "pk", "a", "filler", "x".repeat(2 * 1024 * 1024));
        fails(413, () -> container.createItem(large, key, null));
    }

    @Test
    void itemsOfManyPartitionsAreReadAtOnce() {
        var container = place.wide(3);
        var wanted = new ArrayList<CosmosItemIdentity>();
        wanted.add(new CosmosItemIdentity(new PartitionKey("nowhere"), "missing"));
        for (int n = 0; n < 40; n++) {
            var item = new Item("" + n, "p" + n, n);
            container.createItem(item);
            if (n % 2 == 0) {
                wanted.add(new CosmosItemIdentity(item.key(), item.id()));
            }
        }
        var found = container.readMany(wanted, Item.class).getResults().stream().map(Item::n).sorted();
        assertEquals(IntStream.range(0, 20).map(n -> 2 * n).boxed().toList(), found.toList());
    }

    @Test
    void everythingWithAPartitionKeyIsReadAndDeleted() {
        var container = place.container();
        for (int n = 0; n < 10; n++) {
            container.createItem(new Item("" + n, "p" + n % 2, n));
        }
        var odd = new PartitionKey("p1");
        assertEquals(5, container.readAllItems(odd, Item.class).stream().count());
        container.deleteAllItemsByPartitionKey(odd, new CosmosItemRequestOptions());
        assertEquals(0, container.readAllItems(odd, Item.class).stream().count());
        assertEquals(5, container.readAllItems(new PartitionKey("p0"), Item.class).stream().count());
    }

    @Test
    void partitionKeysAreReadAtOnce() {
        var container = place.wide(2);
        for (int n = 0; n < 12; n++) {
            container.createItem(new Item("" + n, "p" + n % 4, n));
        }
        var keys = List.of(new PartitionKey("p1"), new PartitionKey("p3"));
        var found = container.readManyByPartitionKeys(keys, Item.class).stream().map(Item::n).sorted();
        assertEquals(List.of(1, 3, 5, 7, 9, 11), found.toList());
    }
}
