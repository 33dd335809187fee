package orrery;

import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * Queries as the SDK sends them: with a plan from the server, range by range, merged by the client.
 * What the language means is tested elsewhere; here it travels.
 */
class QueryTest {
    @RegisterExtension static final Place place = new Place();

    private static final int COUNT = 36;
    private static CosmosContainer container;

    @BeforeAll
    static void fillThreePartitions() {
        container = place.wide(3);
        for (int n = 0; n < COUNT; n++) {
            container.createItem(
                    Map.of("id", "" + n, "pk", "p" + n % 9, "n", n, "kind", n % 3, "tags", List.of("t", n)));
        }
    }

    private static <T> List<T> rows(Class<T> type, String query, SqlParameter... parameters) {
        var spec = new SqlQuerySpec(query, List.of(parameters));
        return container.queryItems(spec, new CosmosQueryRequestOptions(), type).stream().toList();
    }

    private static List<Integer> numbers(int from, int to) {
        return IntStream.range(from, to).boxed().toList();
    }

    @Test
    void aFilterWithParameters() {
        var query = "SELECT VALUE c.n FROM c WHERE c.n >= @low AND c.n < @high ORDER BY c.n";
        var parameters = List.of(new SqlParameter("@low", 3), new SqlParameter("@high", 22));
        var spec = new SqlQuerySpec(query, parameters);
        assertEquals(numbers(3, 22), rows(Integer.class, query, parameters.toArray(SqlParameter[]::new)));
        var one = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("p4"));
        var found = container.queryItems(spec, one, Integer.class).stream().toList();
        assertEquals(List.of(4, 13), found);
    }

    @Test
    void orderOffsetAndLimitOverAllPartitions() {
        assertEquals(
                List.of(34, 33, 32),
                rows(Integer.class, "SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 1 LIMIT 3"));
        assertEquals(List.of("0", "1"), rows(String.class, "SELECT TOP 2 VALUE c.id FROM c ORDER BY c.n"));
    }

    @Test
    void aggregatesOverAllPartitions() {
        assertEquals(List.of(COUNT), rows(Integer.class, "SELECT VALUE COUNT(1) FROM c"));
        // The client adds up what the ranges answer, as floating-point numbers.
        assertEquals(List.of(630.0), rows(Double.class, "SELECT VALUE SUM(c.n) FROM c"));
        assertEquals(List.of(17.5), rows(Double.class, "SELECT VALUE AVG(c.n) FROM c"));
        assertEquals(List.of(35), rows(Integer.class, "SELECT VALUE MAX(c.n) FROM c"));
        assertEquals(List.of(0), rows(Integer.class, "SELECT VALUE MIN(c.n) FROM c"));
    }

    @Test
    void groupsAndDistinctValuesOverAllPartitions() {
        var groups = rows(JsonNode.class, "SELECT c.kind, COUNT(1) AS count, SUM(c.n) AS sum FROM c GROUP BY c.kind");
        var shown = groups.stream()
                .map(g -> g.get("kind").asInt() + ":" + g.get("count").asInt() + ":" + g.get("sum").asInt())
                .sorted().toList();
        assertEquals(List.of("0:12:198", "1:12:210", "2:12:222"), shown);
        assertEquals(List.of(0, 1, 2), rows(Integer.class, "SELECT DISTINCT VALUE c.kind FROM c ORDER BY c.kind"));
        assertEquals(
                List.of(0, 1, 2),
                rows(Integer.class, "SELECT DISTINCT VALUE c.kind FROM c").stream().sorted().toList());
    }

    @Test
    void projectionsArraysAndAbsentValues() {
        var found = rows(JsonNode.class, "SELECT c.id, c.missing FROM c WHERE c.n = 7");
        assertEquals("[{\"id\":\"7\"}]", found.toString());
        assertEquals(
                "[\"t\", 4]",
                rows(JsonNode.class, "SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n = 4").toString());
    }

    @Test
    void pagesGoOnFromAContinuationToken() {
        for (var query : List.of("SELECT VALUE c.n FROM c", "SELECT VALUE c.n FROM c ORDER BY c.n")) {
            var found = new ArrayList<Integer>();
            String token = null;
            do {
                // A new query for every page: nothing but the token is carried over.
                var pages = container.queryItems(query, new CosmosQueryRequestOptions(), Integer.class)
                        .iterableByPage(token, 5).iterator();
                var page = pages.next();
                assertTrue(page.getResults().size() <= 5, "a page of " + page.getResults().size());
                found.addAll(page.getResults());
                token = page.getContinuationToken();
            } while (token != null);
            if (query.endsWith("ORDER BY c.n")) {
                assertEquals(numbers(0, COUNT), found);
            }
            assertEquals(numbers(0, COUNT), found.stream().sorted().toList());
        }
    }

    @Test
    void aFeedRangeIsQueriedForItself() {
        var found = new ArrayList<Integer>();
        var ranges = container.getFeedRanges();
        assertEquals(3, ranges.size());
        for (var range : ranges) {
            var options = new CosmosQueryRequestOptions().setFeedRange(range);
            container.queryItems("SELECT VALUE c.n FROM c", options, Integer.class).forEach(found::add);
        }
        assertEquals(numbers(0, COUNT), found.stream().sorted().toList());
    }

    @Test
    void aPrefixOfAHierarchicalKeySelects() {
        var nested = place.container(c -> c.setPartitionKeyDefinition(Place.hierarchical("/tenant", "/user")));
        nested.createItem(Map.of("id", "0", "tenant", "a", "user", "u"));
        nested.createItem(Map.of("id", "1", "tenant", "b", "user", "u"));
        nested.createItem(Map.of("id", "2", "tenant", "a", "user", "v"));
        var options = new CosmosQueryRequestOptions()
                .setPartitionKey(new PartitionKeyBuilder().add("a").build());
        var found = nested.queryItems("SELECT VALUE c.id FROM c", options, String.class).stream().sorted();
        assertEquals(List.of("0", "2"), found.toList());
    }

    @Test
    void metricsAreToldWhenAsked() {
        var options = new CosmosQueryRequestOptions().setQueryMetricsEnabled(true).setIndexMetricsEnabled(true);
        var pages = container.queryItems("SELECT * FROM c WHERE c.n = 2", options, JsonNode.class)
                .iterableByPage().iterator();
        double charge = 0;
        var diagnostics = new StringBuilder();
        while (pages.hasNext()) {
            var page = pages.next();
            charge += page.getRequestCharge();
            diagnostics.append(page.getCosmosDiagnostics());
        }
        assertTrue(charge > 0);
        assertTrue(diagnostics.toString().contains("retrievedDocumentCount"), diagnostics.toString());
    }

    @Test
    void aQueryThatCannotBeParsedIsRefused() {
        fails(400, () -> rows(JsonNode.class, "SELECT * FROM"));
    }
}
