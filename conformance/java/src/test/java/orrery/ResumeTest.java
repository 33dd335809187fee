package orrery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CompositePath;
import com.azure.cosmos.models.CompositePathSortOrder;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.IndexingPolicy;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.function.ToIntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * Ordered queries that begin again with every page, as those of a web page do: nothing but the token of the
 * page before is carried over. The SDK then sends a changed filter together with a token of the server.
 */
class ResumeTest {
    @RegisterExtension static final Place place = new Place();

    private static final int COUNT = 30;
    private static final Object MISSING = new Object();
    /**
     * Values of every type that the SDK can name in a filter, ascending; the first is a missing property. It
     * names neither arrays nor objects, and writes a string with a quotation mark as no server can read it.
     */
    private static final List<Object> VALUES = Arrays.asList(
            MISSING, null, false, true, -1.5, 7, 9007199254740991L, "", "a", "it's so", "\u00e9");

    private static int v(int n) {
        return n * 5 % VALUES.size();
    }

    private static int few(int n) {
        return n % 4;
    }

    private static int s(int n) {
        return n % 5;
    }

    /** A query of ids, the order of its rows by the numbers of their items, and which rows of all it shows. */
    private record Ordered(String text, Comparator<Integer> order, int skip, int take) {
        Ordered(String text, Comparator<Integer> order) {
            this(text, order, 0, COUNT);
        }

        /** Whether no two rows are equal in the order. */
        boolean isTotal() {
            var rows = numbers();
            return IntStream.range(1, rows.size()).allMatch(i -> order.compare(rows.get(i - 1), rows.get(i)) < 0);
        }

        private List<Integer> numbers() {
            return IntStream.range(0, COUNT).boxed().sorted(order).toList();
        }
    }

    private static Comparator<Integer> by(ToIntFunction<Integer> key) {
        return Comparator.comparingInt(key);
    }

    private static final List<Ordered> QUERIES = List.of(
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.n", by(n -> n)),
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.n DESC", by(n -> -n)),
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.v", by(ResumeTest::v)),
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.v DESC", by(n -> -v(n))),
            new Ordered("SELECT VALUE c.n FROM c WHERE c.n >= 0 ORDER BY c.same", by(n -> 0)),
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.same DESC", by(n -> 0)),
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.few, c.s DESC", by(ResumeTest::few).thenComparing(by(n -> -s(n)))),
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.few DESC, c.s", by((Integer n) -> -few(n)).thenComparing(by(ResumeTest::s))),
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.few, c.n", by(ResumeTest::few).thenComparing(by(n -> n))),
            new Ordered("SELECT TOP 17 VALUE c.n FROM c ORDER BY c.n DESC", by(n -> -n), 0, 17),
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 20", by(n -> n), 5, 20),
            new Ordered("SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 3 LIMIT 9", by(n -> -n), 3, 9));

    private static final String DISTINCT = "SELECT DISTINCT VALUE c.few FROM c ORDER BY c.few";

    private static void composites(CosmosContainerProperties properties) {
        var up = CompositePathSortOrder.ASCENDING;
        var policy = new IndexingPolicy();
        policy.setCompositeIndexes(List.of(
                List.of(path("/few", up), path("/s", CompositePathSortOrder.DESCENDING)),
                List.of(path("/few", up), path("/n", up))));
        properties.setIndexingPolicy(policy);
    }

    private static CompositePath path(String path, CompositePathSortOrder order) {
        return new CompositePath().setPath(path).setOrder(order);
    }

    private static CosmosContainer filled(int ranges) {
        var container = ranges == 1
                ? place.container(ResumeTest::composites)
                : place.wide(ranges, ResumeTest::composites);
        for (int n = 0; n < COUNT; n++) {
            var item = new HashMap<String, Object>();
            item.put("id", "" + n);
            item.put("pk", "p" + n % 9);
            item.put("n", n);
            item.put("few", few(n));
            item.put("s", "s" + s(n));
            item.put("same", 1);
            if (VALUES.get(v(n)) != MISSING) {
                item.put("v", VALUES.get(v(n)));
            }
            container.createItem(item);
        }
        return container;
    }

    /** All rows; between two pages the token is all that is kept, and something else may happen. */
    private static List<Integer> resumed(CosmosContainer container, String query, int size, Between between) {
        var found = new ArrayList<Integer>();
        String token = null;
        for (int pages = 1; pages <= 200; pages++) {
            var page = firstPage(container, query, token, size);
            assertTrue(page.getResults().size() <= size, "a page of " + page.getResults().size());
            page.getResults().forEach(row -> found.add(row.asInt()));
            token = page.getContinuationToken();
            if (token == null) {
                return found;
            }
            between.after(pages);
        }
        throw new AssertionError(query + " has no end");
    }

    private static final int DRAWS_MAX = 5;

    /**
     * Closing the stream cancels the query; an iterator that is left alone goes on to read all its pages. Over HTTP that
     * closes the connection, and the SDK's pool gives up, before anything is sent, when it has drawn two such connections
     * in a row; then the page is asked for again.
     */
    private static FeedResponse<JsonNode> firstPage(CosmosContainer container, String query, String token, int size) {
        for (int draw = 1;; draw++) {
            var rows = container.queryItems(query, new CosmosQueryRequestOptions(), JsonNode.class);
            try (var pages = rows.streamByPage(token, size)) {
                return pages.findFirst().orElseThrow();
            } catch (CosmosException error) {
                var isClosed = String.valueOf(error.getMessage()).contains("Error while acquiring from");
                if (!isClosed || draw == DRAWS_MAX) {
                    throw error;
                }
            }
        }
    }

    private interface Between {
        void after(int pages);
    }

    private static void check(Ordered query, List<Integer> found, boolean mayRepeat, String context) {
        var all = query.numbers();
        if (query.isTotal()) {
            assertEquals(all.subList(query.skip, query.skip + query.take), found, context);
            return;
        }
        var isSorted = IntStream.range(1, found.size())
                .allMatch(i -> query.order.compare(found.get(i - 1), found.get(i)) <= 0);
        assertTrue(isSorted, context + ": " + found);
        assertEquals(new HashSet<>(all), new HashSet<>(found), context);
        if (!mayRepeat) {
            assertEquals(all.size(), found.size(), context + ": " + found);
        }
    }

    /**
     * The SDK leaves out what it has shown, and its token names the last value; but after a page on which every
     * value was an old one it names none, so that the next page may show that value again.
     */
    private static void checkDistinct(List<Integer> found, String context) {
        assertEquals(found.stream().sorted().toList(), found, context);
        assertEquals(List.of(0, 1, 2, 3), found.stream().distinct().toList(), context);
    }

    @Test
    void everyOrderedQueryGoesOnFromEveryPage() {
        for (int ranges : new int[] {1, 3}) {
            var container = filled(ranges);
            for (var query : QUERIES) {
                for (int size : new int[] {1, 3, 7}) {
                    var found = resumed(container, query.text, size, pages -> {});
                    check(query, found, false, query.text + " over " + ranges + " in pages of " + size);
                }
            }
            for (int size : new int[] {1, 2, 3, 7}) {
                checkDistinct(resumed(container, DISTINCT, size, pages -> {}), "pages of " + size);
            }
        }
    }

    /**
     * A token of the SDK names one range. After a split, rows that are equal in the order to the last one may
     * come again; none is lost.
     */
    @Test
    void anOrderedQueryGoesOnAcrossSplits() {
        for (int ranges : new int[] {1, 3}) {
            for (var query : QUERIES) {
                var container = filled(ranges);
                var found = resumed(container, query.text, 4, pages -> {
                    if (pages == 1 || pages == 3) {
                        place.split(container);
                    }
                });
                check(query, found, true, query.text + " over " + ranges + " and more");
            }
            var container = filled(ranges);
            var found = resumed(container, DISTINCT, 1, pages -> {
                if (pages == 2) {
                    place.split(container);
                }
            });
            checkDistinct(found, "across a split");
        }
    }
}
