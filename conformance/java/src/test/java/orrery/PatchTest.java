package orrery;

import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosPatchItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Patch: the six operations, conditions, and what must not be patched. */
class PatchTest {
    @RegisterExtension static final Place place = new Place();

    private static final String START =
            "{'id':'1','pk':'a','n':1,'text':'t','list':[1,2,3],'object':{'a':1}}";
    private static final PartitionKey KEY = new PartitionKey("a");
    private static CosmosContainer container;

    @BeforeAll
    static void makeTheContainer() {
        container = place.container();
    }

    @BeforeEach
    void startAfresh() throws Exception {
        container.upsertItem(json(START));
    }

    private static JsonNode json(String text) throws Exception {
        return new ObjectMapper().readTree(text.replace('\'', '"'));
    }

    /** The item's own properties. */
    private static JsonNode stored() {
        var item = container.readItem("1", KEY, ObjectNode.class).getItem();
        return item.remove(List.of("_rid", "_self", "_etag", "_attachments", "_ts"));
    }

    private static void patch(CosmosPatchOperations operations) {
        container.patchItem("1", KEY, operations, JsonNode.class);
    }

    @Test
    void operationsApplyInOrder() throws Exception {
        patch(CosmosPatchOperations.create()
                .add("/list/1", 9)
                .set("/object/b", List.of())
                .replace("/text", "u")
                .increment("/n", 40)
                .increment("/n", 1.5)
                .remove("/list/0")
                .move("/text", "/moved"));
        assertEquals(
                json("{'id':'1','pk':'a','n':42.5,'list':[9,2,3],'object':{'a':1,'b':[]},'moved':'u'}"),
                stored());
    }

    @Test
    void aConditionDecidesWhetherThePatchApplies() {
        var operations = CosmosPatchOperations.create().set("/n", 2);
        var no = new CosmosPatchItemRequestOptions().setFilterPredicate("from c where c.n = 7");
        fails(412, () -> container.patchItem("1", KEY, operations, no, JsonNode.class));
        assertEquals(1, stored().get("n").asInt());
        var yes = new CosmosPatchItemRequestOptions().setFilterPredicate("from c where c.n = 1");
        container.patchItem("1", KEY, operations, yes, JsonNode.class);
        assertEquals(2, stored().get("n").asInt());
    }

    @Test
    void aPatchThatCannotBeDoneChangesNothing() throws Exception {
        for (var operations : List.of(
                CosmosPatchOperations.create().set("/n", 2).remove("/missing"),
                CosmosPatchOperations.create().replace("/missing", 1),
                CosmosPatchOperations.create().increment("/text", 1),
                CosmosPatchOperations.create().set("/id", "2"),
                CosmosPatchOperations.create().set("/pk", "b"))) {
            fails(400, () -> patch(operations));
            assertEquals(json(START), stored());
        }
    }

    @Test
    void whatIsNotThereCannotBePatched() {
        var operations = CosmosPatchOperations.create().set("/n", 1);
        fails(404, () -> container.patchItem("missing", KEY, operations, JsonNode.class));
    }
}
