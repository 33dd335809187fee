package orrery;

import static orrery.Place.eventually;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.ChangeFeedProcessorItem;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BiFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The change feed processor: workers that share the partitions of a container by leases. */
class ChangeFeedProcessorTest {
    @RegisterExtension static final Place place = new Place();

    private static final int PARTITIONS = 4;

    /**
     * Longer than a test. When a renewal meets a checkpoint, the SDK's lease updater takes over the newer etag but
     * writes the position that it read before, so the checkpoint is lost until the next change, and the lag with it.
     */
    private static final Duration NO_RENEWAL = Duration.ofMinutes(5);

    /** Both kinds of leases that the SDK writes: by range of keys, and by partition, as of old. */
    @Test
    void twoWorkersShareThePartitionsByRange() {
        twoWorkers((builder, seen) -> builder.handleLatestVersionChanges(
                changes -> changes.forEach(change -> seen.add(change.getCurrent().get("id").asText()))));
    }

    @Test
    void twoWorkersShareThePartitionsById() {
        twoWorkers((builder, seen) -> builder.handleChanges(
                changes -> changes.forEach(change -> seen.add(change.get("id").asText()))));
    }

    private static void twoWorkers(
            BiFunction<ChangeFeedProcessorBuilder, Set<String>, ChangeFeedProcessorBuilder> handle) {
        var feed = place.wide(PARTITIONS);
        var leases = leases();
        Set<String> seenByAda = ConcurrentHashMap.newKeySet();
        Set<String> seenByBob = ConcurrentHashMap.newKeySet();
        var ada = handle.apply(worker("ada", feed, leases), seenByAda).buildChangeFeedProcessor();
        var bob = handle.apply(worker("bob", feed, leases), seenByBob).buildChangeFeedProcessor();
        write(feed, 0, 40);
        ada.start().block();
        try {
            eventually(Map.of("ada", PARTITIONS), () -> owners(leases));
            eventually(ids(0, 40), () -> Set.copyOf(seenByAda));
            bob.start().block();
            eventually(Map.of("ada", PARTITIONS / 2, "bob", PARTITIONS / 2), () -> owners(leases));
            seenByAda.clear();
            seenByBob.clear();
            write(feed, 40, 120);
            eventually(ids(40, 120), () -> union(seenByAda, seenByBob));
            assertFalse(seenByAda.isEmpty() || seenByBob.isEmpty(), "one worker did it all");
            eventually(0, () -> lag(bob));

            // A worker that stops gives its leases back, and the other goes on where it was. What the
            // first had already asked for may still reach it.
            bob.stop().block();
            write(feed, 120, 140);
            eventually(true, () -> union(seenByAda, seenByBob).containsAll(ids(120, 140)));
            eventually(Map.of("ada", PARTITIONS), () -> owners(leases));
            write(feed, 140, 160);
            eventually(true, () -> seenByAda.containsAll(ids(140, 160)));
        } finally {
            stop(bob);
            stop(ada);
        }
    }

    @Test
    void allVersionsAndDeletesReachAWorker() {
        var feed = place.container(c -> c.setChangeFeedPolicy(
                ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofMinutes(10))));
        var leases = leases();
        Queue<String> seen = new ConcurrentLinkedQueue<>();
        var options = options().setStartFromBeginning(false);
        var worker = worker("ada", feed, leases)
                .options(options)
                .handleAllVersionsAndDeletesChanges((List<ChangeFeedProcessorItem> changes) -> changes.forEach(
                        change -> seen.add(change.getChangeFeedMetaData().getOperationType().toString())))
                .buildChangeFeedProcessor();
        worker.start().block();
        try {
            // The feed starts where the worker first reads it, which its lease tells.
            eventually(true, () -> positions(leases).noneMatch(String::isEmpty));
            feed.createItem(new Item("1", "a", 1));
            feed.upsertItem(new Item("1", "a", 2));
            feed.deleteItem("1", new PartitionKey("a"), null);
            eventually("[CREATE, REPLACE, DELETE]", () -> seen.toString().toUpperCase());
        } finally {
            stop(worker);
        }
    }

    private static void stop(ChangeFeedProcessor worker) {
        if (worker.isStarted()) {
            worker.stop().block();
        }
    }

    private static ChangeFeedProcessorBuilder worker(String name, CosmosContainer feed, CosmosContainer leases) {
        return new ChangeFeedProcessorBuilder()
                .hostName(name)
                .feedContainer(async(feed))
                .leaseContainer(async(leases))
                .options(options().setStartFromBeginning(true).setLeaseRenewInterval(NO_RENEWAL));
    }

    /** Everything that takes seconds by default takes a fraction of one. */
    private static ChangeFeedProcessorOptions options() {
        return new ChangeFeedProcessorOptions()
                .setFeedPollDelay(Duration.ofMillis(100))
                .setLeaseAcquireInterval(Duration.ofMillis(300))
                .setLeaseRenewInterval(Duration.ofMillis(500))
                .setLeaseExpirationInterval(Duration.ofMinutes(10))
                .setMaxItemCount(7);
    }

    private static CosmosContainer leases() {
        var id = Place.unique("leases");
        place.database.createContainer(id, "/id");
        return place.database.getContainer(id);
    }

    private static CosmosAsyncContainer async(CosmosContainer container) {
        return Place.asyncClient().getDatabase(place.database.getId()).getContainer(container.getId());
    }

    private static void write(CosmosContainer feed, int from, int to) {
        for (int n = from; n < to; n++) {
            feed.createItem(new Item("" + n, "p" + n, n));
        }
    }

    private static Set<String> ids(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).collect(Collectors.toSet());
    }

    private static Set<String> union(Set<String> one, Set<String> other) {
        var all = ConcurrentHashMap.<String>newKeySet();
        all.addAll(one);
        all.addAll(other);
        return Set.copyOf(all);
    }

    private static int lag(ChangeFeedProcessor worker) {
        return worker.getCurrentState().block().stream().mapToInt(state -> Math.max(0, state.getEstimatedLag())).sum();
    }

    private static Stream<JsonNode> leasesOf(CosmosContainer leases) {
        var query = "SELECT * FROM c WHERE IS_DEFINED(c.LeaseToken)";
        return leases.queryItems(query, new CosmosQueryRequestOptions(), JsonNode.class).stream();
    }

    /** How many leases each worker has. */
    private static Map<String, Integer> owners(CosmosContainer leases) {
        var counts = new TreeMap<String, Integer>();
        leasesOf(leases).forEach(lease -> counts.merge(lease.path("Owner").asText("nobody"), 1, Integer::sum));
        return counts;
    }

    private static Stream<String> positions(CosmosContainer leases) {
        var found = leasesOf(leases).map(lease -> lease.path("ContinuationToken").asText("")).toList();
        return found.isEmpty() ? Stream.of("") : found.stream();
    }
}
