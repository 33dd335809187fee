package orrery;

import static orrery.Place.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * Clients of every kind at work while the range that they use splits: none of their calls fails, and nothing
 * is lost or doubled.
 */
class SplitTest {
    @RegisterExtension static final Place place = new Place();

    private static final int SPLITS = 3;
    private static final int WRITERS = 3;
    private static final int READERS = 2;
    private static final int BULK = 40;
    /** Writes that are acknowledged before and between splits, and after the last one. */
    private static final int WRITES_BETWEEN = 120;

    private final Set<String> acknowledged = new ConcurrentSkipListSet<>();
    private final AtomicBoolean isOver = new AtomicBoolean();

    @Test
    void everyKindOfClientGoesOnAcrossSplits() throws Exception {
        var container = place.container();
        var seen = ConcurrentHashMap.<String>newKeySet();
        var processor = processor(container, seen);
        var threads = Executors.newCachedThreadPool();
        var clients = new ArrayList<Future<Integer>>();
        processor.start().block();
        try {
            for (int writer = 0; writer < WRITERS; writer++) {
                clients.add(threads.submit(writer(container, "w" + writer)));
            }
            clients.add(threads.submit(bulk(container)));
            for (int reader = 0; reader < READERS; reader++) {
                clients.add(threads.submit(reader(container, reader)));
            }
            for (int split = 0; split < SPLITS; split++) {
                awaitWrites(clients);
                place.split(container);
            }
            awaitWrites(clients);
            isOver.set(true);
            for (var client : clients) {
                assertTrue(client.get() > 0, "a client did nothing");
            }
            eventually(Set.copyOf(acknowledged), () -> Set.copyOf(seen));
            assertEquals(List.copyOf(acknowledged), ids(container, "SELECT VALUE c.id FROM c"));
        } finally {
            isOver.set(true);
            threads.shutdown();
            processor.stop().block();
        }
    }

    /** Waits until clients have written some more; one that has failed fails the test. */
    private void awaitWrites(List<Future<Integer>> clients) throws InterruptedException, ExecutionException {
        var until = acknowledged.size() + WRITES_BETWEEN;
        while (acknowledged.size() < until) {
            for (var client : clients) {
                if (client.isDone()) {
                    client.get();
                }
            }
            Thread.sleep(5);
        }
    }

    private Callable<Integer> writer(CosmosContainer container, String name) {
        return () -> {
            int n = 0;
            for (; !isOver.get(); n++) {
                var item = new Item(name + "-" + n, "p" + n % 50, n);
                assertEquals(201, container.createItem(item).getStatusCode());
                acknowledged.add(item.id());
            }
            return n;
        };
    }

    private Callable<Integer> bulk(CosmosContainer container) {
        return () -> {
            int n = 0;
            for (; !isOver.get(); n += BULK) {
                var operations = IntStream.range(n, n + BULK)
                        .mapToObj(each -> new Item("b-" + each, "p" + each % 50, each))
                        .<CosmosItemOperation>map(item -> CosmosBulkOperations.getCreateItemOperation(item, item.key()))
                        .toList();
                for (var each : container.executeBulkOperations(operations)) {
                    assertNotNull(each.getResponse(), () -> "no answer: " + each.getException());
                    assertEquals(201, each.getResponse().getStatusCode());
                    acknowledged.add(((Item) each.getOperation().getItem()).id());
                }
            }
            return n;
        };
    }

    /** Reads the first items of a writer, alone and by queries of one range and of all. */
    private Callable<Integer> reader(CosmosContainer container, int number) {
        return () -> {
            var id = "w" + number + "-0";
            var key = new PartitionKey("p0");
            int n = 0;
            while (!isOver.get()) {
                if (!acknowledged.contains(id)) {
                    Thread.sleep(5);
                    continue;
                }
                assertEquals(0, container.readItem(id, key, Item.class).getItem().n());
                var query = "SELECT VALUE c.id FROM c WHERE c.id = '" + id + "'";
                var options = new CosmosQueryRequestOptions().setPartitionKey(key);
                assertEquals(List.of(id), container.queryItems(query, options, String.class).stream().toList());
                assertEquals(List.of(id), ids(container, query));
                n++;
            }
            return n;
        };
    }

    private static List<String> ids(CosmosContainer container, String query) {
        var found = container.queryItems(query, new CosmosQueryRequestOptions(), String.class).stream().toList();
        assertEquals(found.size(), new TreeSet<>(found).size(), "an item came twice");
        return found.stream().sorted().toList();
    }

    private static ChangeFeedProcessor processor(CosmosContainer feed, Set<String> seen) {
        var leases = Place.unique("leases");
        place.database.createContainer(leases, "/id");
        var database = Place.asyncClient().getDatabase(place.database.getId());
        return new ChangeFeedProcessorBuilder()
                .hostName("ada")
                .feedContainer(database.getContainer(feed.getId()))
                .leaseContainer(database.getContainer(leases))
                .options(new ChangeFeedProcessorOptions()
                        .setStartFromBeginning(true)
                        .setFeedPollDelay(Duration.ofMillis(100))
                        .setLeaseAcquireInterval(Duration.ofMillis(300))
                        .setLeaseRenewInterval(Duration.ofMinutes(5))
                        .setLeaseExpirationInterval(Duration.ofMinutes(10)))
                .handleLatestVersionChanges(changes ->
                        changes.forEach(change -> seen.add(change.getCurrent().get("id").asText())))
                .buildChangeFeedProcessor();
    }
}
