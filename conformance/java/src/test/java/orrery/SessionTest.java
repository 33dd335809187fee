package orrery;

import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** Session tokens: who carries one reads at least what its writer wrote. */
class SessionTest {
    @RegisterExtension static final Place place = new Place();

    private static final PartitionKey KEY = new PartitionKey("a");
    private static CosmosContainer container;

    @BeforeAll
    static void makeTheContainer() {
        container = place.container();
    }

    private static long lsn(String token) {
        assertTrue(token.matches("\\d+:-?\\d+#\\d+(#\\d+=-?\\d+)*"), token);
        return Long.parseLong(token.split("#")[1]);
    }

    @Test
    void everyWriteAnswersWithATokenThatRises() {
        long last = 0;
        for (int n = 0; n < 5; n++) {
            long next = lsn(container.upsertItem(new Item("rising", "a", n)).getSessionToken());
            assertTrue(next > last, next + " after " + last);
            last = next;
        }
    }

    @Test
    void anotherClientWithTheTokenSeesTheWrite() {
        var token = container.createItem(new Item("seen", "a", 1)).getSessionToken();
        try (var other = Place.builder().key(Place.KEY).buildClient()) {
            var same = other.getDatabase(place.database.getId()).getContainer(container.getId());
            for (var level : new ConsistencyLevel[] {ConsistencyLevel.SESSION, ConsistencyLevel.EVENTUAL}) {
                var options = new CosmosItemRequestOptions().setSessionToken(token).setConsistencyLevel(level);
                assertEquals(1, same.readItem("seen", KEY, options, Item.class).getItem().n());
            }
        }
    }

    @Test
    void aTokenOfTheFutureIsNotAvailableYet() {
        var token = container.createItem(new Item("future", "a", 1)).getSessionToken();
        var future = new CosmosItemRequestOptions().setSessionToken(token.replaceFirst("#\\d+", "#999999999"));
        Executable read = () -> container.readItem("future", KEY, future, Item.class);
        // In Direct mode the client asks again for a while and then makes the error itself, which has no
        // activity id.
        var error = Place.DIRECT ? assertThrows(CosmosException.class, read) : fails(404, read);
        assertEquals(404, error.getStatusCode(), error.getMessage());
        assertEquals(1002, error.getSubStatusCode());
    }
}
