package orrery;

import static orrery.Place.eventually;
import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosGlobalSecondaryIndexBuildStatus;
import com.azure.cosmos.models.CosmosGlobalSecondaryIndexDefinition;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.ExcludedPath;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Containers that are kept from others, under another partition key. */
class GlobalSecondaryIndexTest {
    private static final String QUERY = "SELECT c.pk, c.n, c.id FROM c";

    @RegisterExtension static final Place place = new Place();

    private static CosmosContainerProperties properties(CosmosContainer source, String query) {
        return new CosmosContainerProperties(Place.unique("index"), "/n")
                .setGlobalSecondaryIndexDefinition(
                        new CosmosGlobalSecondaryIndexDefinition(source.getId(), query));
    }

    private static CosmosContainer index(CosmosContainer source) {
        var properties = properties(source, QUERY);
        place.database.createContainer(properties);
        return place.database.getContainer(properties.getId());
    }

    /** The ids of the source items under one value of the index's key. */
    private static List<String> under(CosmosContainer index, int n) {
        var options = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey(n));
        return index.queryItems("SELECT VALUE c._id FROM c ORDER BY c._id", options, String.class).stream()
                .toList();
    }

    @Test
    void anIndexIsBuiltAndFollows() {
        var source = place.wide(2);
        for (int i = 0; i < 20; i++) {
            source.createItem(new Item("i" + i, "p" + i % 3, i % 4));
        }
        var index = index(source);
        eventually(List.of("i1", "i13", "i17", "i5", "i9"), () -> under(index, 1));
        eventually(
                CosmosGlobalSecondaryIndexBuildStatus.ACTIVE,
                () -> index.read().getProperties().getGlobalSecondaryIndexDefinition().getStatus());
        source.upsertItem(new Item("i1", "p1", 7));
        source.deleteItem("i5", new PartitionKey("p2"), new CosmosItemRequestOptions());
        eventually(List.of("i13", "i17", "i9"), () -> under(index, 1));
        eventually(List.of("i1"), () -> under(index, 7));
        var options = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey(7));
        var found = index.queryItems("SELECT * FROM c", options, JsonNode.class).stream().toList().get(0);
        assertEquals("p1", found.get("pk").asText());
        var id = found.get("id").asText();
        assertNotEquals("i1", id);
        assertEquals(found, index.readItem(id, new PartitionKey(7), JsonNode.class).getItem());
    }

    @Test
    void theDefinitionIsKeptAndNamesTheSource() {
        var source = place.container();
        var made = place.database.createContainer(properties(source, QUERY)).getProperties();
        var index = place.database.getContainer(made.getId());
        var read = index.read().getProperties();
        for (var definition : List.of(made, read).stream()
                .map(CosmosContainerProperties::getGlobalSecondaryIndexDefinition)
                .toList()) {
            assertEquals(source.getId(), definition.getSourceContainerId());
            assertEquals(source.read().getProperties().getResourceId(), definition.getSourceContainerRid());
            assertEquals(QUERY, definition.getDefinition());
        }
        var policy = new IndexingPolicy().setExcludedPaths(List.of(new ExcludedPath("/pk/*")));
        var replaced = index.replace(read.setIndexingPolicy(policy)).getProperties();
        assertEquals(QUERY, replaced.getGlobalSecondaryIndexDefinition().getDefinition());
        assertNull(source.read().getProperties().getGlobalSecondaryIndexDefinition());
    }

    @Test
    void whatAnIndexCannotDoIsRefused() {
        var source = place.container();
        var index = index(source);
        fails(403, () -> index.createItem(new Item("x", "p", 1)));
        fails(403, () -> index.upsertItem(new Item("x", "p", 1)));
        fails(400, source::delete);
        fails(400, () -> place.database.createContainer(properties(index, QUERY)));
        fails(400, () -> place.database.createContainer(properties(source, "SELECT c.n FROM c")));
        fails(400, () -> place.database.createContainer(properties(source, QUERY + " WHERE c.n = 1")));
        var missing = new CosmosContainerProperties(Place.unique("index"), "/n")
                .setGlobalSecondaryIndexDefinition(
                        new CosmosGlobalSecondaryIndexDefinition("missing", QUERY));
        fails(404, () -> place.database.createContainer(missing));
        assertEquals(204, index.delete().getStatusCode());
        assertEquals(204, source.delete().getStatusCode());
    }
}
