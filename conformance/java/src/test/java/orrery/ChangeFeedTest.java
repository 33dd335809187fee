package orrery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The change feed as the SDK pulls it. */
class ChangeFeedTest {
    @RegisterExtension static final Place place = new Place();

    /** What was found, and where reading would go on. */
    private record Pulled<T>(List<T> found, String token) {}

    private static <T> Pulled<T> pull(
            CosmosContainer container, CosmosChangeFeedRequestOptions options, Class<T> type) {
        var found = new ArrayList<T>();
        String token = null;
        for (var page : container.queryChangeFeed(options, type).iterableByPage()) {
            found.addAll(page.getResults());
            token = page.getContinuationToken();
            if (page.getResults().isEmpty()) {
                break;
            }
        }
        return new Pulled<>(found, token);
    }

    private static List<String> shown(Pulled<Item> pulled) {
        return pulled.found().stream().map(Item::shown).toList();
    }

    private static CosmosChangeFeedRequestOptions fromBeginning(FeedRange range) {
        return CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(range);
    }

    private static CosmosChangeFeedRequestOptions after(Pulled<?> last) {
        return CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(last.token());
    }

    @Test
    void theFeedGivesTheNewestStateThenOnlyWhatIsNew() {
        var container = place.container();
        container.createItem(new Item("1", "a", 1));
        container.createItem(new Item("2", "a", 1));
        container.upsertItem(new Item("1", "a", 2));
        var all = pull(container, fromBeginning(FeedRange.forFullRange()), Item.class);
        assertEquals(List.of("2:1", "1:2"), shown(all));
        container.createItem(new Item("3", "b", 1));
        var next = pull(container, after(all), Item.class);
        assertEquals(List.of("3:1"), shown(next));
        assertEquals(List.of(), shown(pull(container, after(next), Item.class)));
    }

    @Test
    void fromNowAndFromATime() {
        var container = place.container();
        container.createItem(new Item("old", "a", 1));
        var whole = FeedRange.forFullRange();
        var now = pull(container, CosmosChangeFeedRequestOptions.createForProcessingFromNow(whole), Item.class);
        assertEquals(List.of(), shown(now));
        container.createItem(new Item("new", "a", 1));
        assertEquals(List.of("new:1"), shown(pull(container, after(now), Item.class)));
        var hourAgo = CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime(
                Instant.now().minus(Duration.ofHours(1)), whole);
        assertEquals(List.of("old:1", "new:1"), shown(pull(container, hourAgo, Item.class)));
    }

    @Test
    void pagesOfEverySizeGiveEveryChangeOnceOverSeveralPartitions() {
        var container = place.wide(3);
        for (int n = 0; n < 60; n++) {
            container.createItem(new Item("" + n, "p" + n % 7, n));
        }
        for (int size : new int[] {1, 7, 100}) {
            var options = fromBeginning(FeedRange.forFullRange()).setMaxItemCount(size);
            var found = new ArrayList<String>();
            // Empty pages come up where one partition ends and another begins.
            for (var page : container.queryChangeFeed(options, Item.class).iterableByPage()) {
                assertTrue(page.getResults().size() <= size);
                page.getResults().forEach(item -> found.add(item.shown()));
                if (found.size() >= 60 && page.getResults().isEmpty()) {
                    break;
                }
            }
            assertEquals(60, found.size());
            assertEquals(60, new HashSet<>(found).size());
        }
    }

    @Test
    void rangesKeysAndPrefixesHaveFeedsOfTheirOwn() {
        var container = place.wide(2);
        for (int n = 0; n < 20; n++) {
            container.createItem(new Item("" + n, "p" + n % 4, n));
        }
        var one = FeedRange.forLogicalPartition(new PartitionKey("p1"));
        assertEquals(
                List.of("1:1", "5:5", "9:9", "13:13", "17:17"),
                shown(pull(container, fromBeginning(one), Item.class)));
        var found = new HashSet<String>();
        for (var range : container.getFeedRanges()) {
            // A range travels as text between the workers of a user.
            var same = FeedRange.fromString(range.toString());
            found.addAll(shown(pull(container, fromBeginning(same), Item.class)));
        }
        assertEquals(20, found.size());

        var nested = place.container(c -> c.setPartitionKeyDefinition(Place.hierarchical("/tenant", "/user")));
        nested.createItem(Map.of("id", "1", "tenant", "a", "user", "u"));
        nested.createItem(Map.of("id", "2", "tenant", "b", "user", "u"));
        nested.createItem(Map.of("id", "3", "tenant", "a", "user", "v"));
        var full = new PartitionKeyBuilder().add("a").add("v").build();
        var pulled = pull(nested, fromBeginning(FeedRange.forLogicalPartition(full)), JsonNode.class);
        assertEquals(List.of("3"), pulled.found().stream().map(item -> item.get("id").asText()).toList());
    }

    @Test
    void allVersionsAndDeletes() {
        var container = place.container(c -> c.setChangeFeedPolicy(
                ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofMinutes(10))));
        var now = CosmosChangeFeedRequestOptions
                .createForProcessingFromNow(FeedRange.forFullRange()).allVersionsAndDeletes();
        var start = pull(container, now, JsonNode.class);
        assertEquals(0, start.found().size());
        container.createItem(new Item("1", "a", 1));
        container.upsertItem(new Item("1", "a", 2));
        container.deleteItem("1", new PartitionKey("a"), null);
        var found = pull(container, after(start).allVersionsAndDeletes(), JsonNode.class).found();
        assertEquals(
                List.of("create", "replace", "delete"),
                found.stream().map(change -> change.at("/metadata/operationType").asText()).toList());
        assertEquals(1, found.get(0).at("/current/n").asInt());
        assertEquals(2, found.get(1).at("/current/n").asInt());
        assertEquals("1", found.get(2).at("/metadata/id").asText());
    }
}
