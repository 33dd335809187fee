package orrery;

import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PermissionMode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Users and permissions, and clients that have no more than one of them. */
class UserTest {
    @RegisterExtension static final Place place = new Place();

    @Test
    void aUserIsCreatedListedRenamedAndDeleted() {
        place.database.createUser(new CosmosUserProperties().setId("ada"));
        fails(409, () -> place.database.createUser(new CosmosUserProperties().setId("ada")));
        assertTrue(place.database.readAllUsers().stream().anyMatch(user -> user.getId().equals("ada")));
        var ada = place.database.getUser("ada");
        ada.replace(ada.read().getProperties().setId("countess"));
        assertEquals("countess", place.database.getUser("countess").read().getProperties().getId());
        place.database.getUser("countess").delete();
        fails(404, () -> place.database.getUser("countess").read());
    }

    @Test
    void aTokenOpensWhatItsPermissionSaysAndNoMore() {
        var container = place.container();
        container.createItem(new Item("1", "a", 1));
        container.createItem(new Item("1", "b", 2));
        var database = Place.asyncClient().getDatabase(place.database.getId());
        database.createUser(new CosmosUserProperties().setId("reader")).block();
        var permission = database.getUser("reader").createPermission(
                new CosmosPermissionProperties()
                        .setId("read-a")
                        .setPermissionMode(PermissionMode.READ)
                        .setContainerName(container.getId())
                        .setResourcePartitionKey(new PartitionKey("a")),
                null).block();
        try (var client = Place.builder().resourceToken(permission.getProperties().getToken()).buildClient()) {
            var same = client.getDatabase(place.database.getId()).getContainer(container.getId());
            assertEquals(1, same.readItem("1", new PartitionKey("a"), Item.class).getItem().n());
            fails(403, () -> same.readItem("1", new PartitionKey("b"), Item.class));
            fails(403, () -> same.createItem(new Item("2", "a", 2)));
        }
    }
}
