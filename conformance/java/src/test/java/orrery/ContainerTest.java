package orrery;

import static orrery.Place.eventually;
import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.CompositePath;
import com.azure.cosmos.models.CompositePathSortOrder;
import com.azure.cosmos.models.ComputedProperty;
import com.azure.cosmos.models.ConflictResolutionPolicy;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.ExcludedPath;
import com.azure.cosmos.models.IncludedPath;
import com.azure.cosmos.models.IndexingMode;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SpatialSpec;
import com.azure.cosmos.models.SpatialType;
import com.azure.cosmos.models.ThroughputProperties;
import com.azure.cosmos.models.UniqueKey;
import com.azure.cosmos.models.UniqueKeyPolicy;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Containers: their life, the properties they keep, and their throughput. */
class ContainerTest {
    @RegisterExtension static final Place place = new Place();

    /** Creates a container and gives what a read answers. */
    private static CosmosContainerProperties kept(Consumer<CosmosContainerProperties> change) {
        return place.container(change).read().getProperties();
    }

    @Test
    void aContainerIsCreatedListedAndDeleted() {
        var container = place.container();
        var ids = place.database.readAllContainers().stream().map(CosmosContainerProperties::getId);
        assertTrue(ids.anyMatch(container.getId()::equals));
        fails(409, () -> place.database.createContainer(container.getId(), "/pk"));
        assertEquals(
                200, place.database.createContainerIfNotExists(container.getId(), "/pk").getStatusCode());
        assertEquals(204, container.delete().getStatusCode());
        fails(404, container::read);
    }

    @Test
    void aHierarchicalPartitionKeyIsKept() {
        var definition = Place.hierarchical("/tenant", "/user", "/session");
        var found = kept(c -> c.setPartitionKeyDefinition(definition)).getPartitionKeyDefinition();
        assertEquals(definition.getPaths(), found.getPaths());
        assertEquals(definition.getKind(), found.getKind());
        assertEquals(definition.getVersion(), found.getVersion());
    }

    @Test
    void theIndexingPolicyIsKept() {
        var composite = List.of(
                new CompositePath().setPath("/a").setOrder(CompositePathSortOrder.ASCENDING),
                new CompositePath().setPath("/b").setOrder(CompositePathSortOrder.DESCENDING));
        var spatial = new SpatialSpec()
                .setPath("/place/*")
                .setSpatialTypes(List.of(SpatialType.POINT, SpatialType.POLYGON));
        var policy = kept(c -> c.setIndexingPolicy(new IndexingPolicy()
                .setIndexingMode(IndexingMode.CONSISTENT)
                .setIncludedPaths(List.of(new IncludedPath("/*")))
                .setExcludedPaths(List.of(new ExcludedPath("/secret/*")))
                .setCompositeIndexes(List.of(composite))
                .setSpatialIndexes(List.of(spatial)))).getIndexingPolicy();
        assertEquals(IndexingMode.CONSISTENT, policy.getIndexingMode());
        assertTrue(policy.getExcludedPaths().stream().anyMatch(p -> p.getPath().equals("/secret/*")));
        assertEquals(List.of(composite), policy.getCompositeIndexes());
        assertEquals("/place/*", policy.getSpatialIndexes().get(0).getPath());
    }

    @Test
    void aContainerWithoutAnIndexIsKept() {
        var none = new IndexingPolicy().setIndexingMode(IndexingMode.NONE).setAutomatic(false);
        var policy = kept(c -> c.setIndexingPolicy(none)).getIndexingPolicy();
        assertEquals(IndexingMode.NONE, policy.getIndexingMode());
    }

    @Test
    void policiesAndComputedPropertiesAreKept() {
        var computed = new ComputedProperty("lower", "SELECT VALUE LOWER(c.name) FROM c");
        var found = kept(c -> c
                .setDefaultTimeToLiveInSeconds(3600)
                .setConflictResolutionPolicy(ConflictResolutionPolicy.createLastWriterWinsPolicy("/rank"))
                .setChangeFeedPolicy(
                        ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofMinutes(5)))
                .setComputedProperties(List.of(computed)));
        assertEquals(3600, found.getDefaultTimeToLiveInSeconds());
        assertEquals("/rank", found.getConflictResolutionPolicy().getConflictResolutionPath());
        assertEquals(
                Duration.ofMinutes(5),
                found.getChangeFeedPolicy().getRetentionDurationForAllVersionsAndDeletesPolicy());
        assertEquals("lower", found.getComputedProperties().iterator().next().getName());
    }

    @Test
    void aContainerIsReplacedButItsPartitionKeyStays() {
        var container = place.container();
        var properties = container.read().getProperties().setDefaultTimeToLiveInSeconds(60);
        var replaced = container.replace(properties);
        assertEquals(60, replaced.getProperties().getDefaultTimeToLiveInSeconds());
        properties.getPartitionKeyDefinition().setPaths(List.of("/other"));
        fails(400, () -> container.replace(properties));
    }

    @Test
    void uniqueKeysAreKeptWithinAPartition() {
        var unique = new UniqueKeyPolicy().setUniqueKeys(List.of(new UniqueKey(List.of("/n"))));
        var container = place.container(c -> c.setUniqueKeyPolicy(unique));
        container.createItem(new Item("1", "a", 7));
        fails(409, () -> container.createItem(new Item("2", "a", 7)));
        container.createItem(new Item("2", "b", 7));
    }

    @Test
    void anItemWhoseTimeIsOverIsGone() {
        var container = place.container(c -> c.setDefaultTimeToLiveInSeconds(-1));
        container.createItem(new Item("stays", "a", 1));
        container.createItem(new Item("goes", "a", 1, 1));
        eventually(404, () -> {
            try {
                return container.readItem("goes", new PartitionKey("a"), Item.class).getStatusCode();
            } catch (CosmosException error) {
                return error.getStatusCode();
            }
        });
        container.readItem("stays", new PartitionKey("a"), Item.class);
    }

    @Test
    void throughputIsReadReplacedAndScaled() {
        var manual = ThroughputProperties.createManualThroughput(400);
        var fixed = Place.unique("c");
        place.database.createContainer(new CosmosContainerProperties(fixed, "/pk"), manual);
        var container = place.database.getContainer(fixed);
        container.replaceThroughput(ThroughputProperties.createManualThroughput(600));
        var read = container.readThroughput();
        assertEquals(600, read.getProperties().getManualThroughput());
        assertTrue(read.getMinThroughput() <= 600);

        var scaled = Place.unique("c");
        place.database.createContainer(
                new CosmosContainerProperties(scaled, "/pk"),
                ThroughputProperties.createAutoscaledThroughput(4000));
        var auto = place.database.getContainer(scaled);
        assertEquals(4000, auto.readThroughput().getProperties().getAutoscaleMaxThroughput());
        auto.replaceThroughput(ThroughputProperties.createAutoscaledThroughput(5000));
        assertEquals(5000, auto.readThroughput().getProperties().getAutoscaleMaxThroughput());
    }
}
