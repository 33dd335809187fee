package orrery;

import static orrery.Place.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.CosmosTriggerProperties;
import com.azure.cosmos.models.CosmosUserDefinedFunctionProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.TriggerOperation;
import com.azure.cosmos.models.TriggerType;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Stored procedures, triggers and functions. */
class ScriptTest {
    @RegisterExtension static final Place place = new Place();

    private static final PartitionKey KEY = new PartitionKey("a");
    private static CosmosContainer container;

    @BeforeAll
    static void makeTheContainer() {
        container = place.container();
    }

    private static String execute(String id, Object... arguments) {
        var options = new CosmosStoredProcedureRequestOptions().setPartitionKey(KEY);
        return container.getScripts().getStoredProcedure(id)
                .execute(List.of(arguments), options).getResponseAsString();
    }

    @Test
    void aProcedureIsCreatedReadReplacedListedAndDeleted() {
        var scripts = container.getScripts();
        scripts.createStoredProcedure(new CosmosStoredProcedureProperties("life", "function life() {}"));
        fails(409, () -> scripts.createStoredProcedure(
                new CosmosStoredProcedureProperties("life", "function life() {}")));
        var procedure = scripts.getStoredProcedure("life");
        var changed = procedure.read().getProperties().setBody("function life(n) { getContext().getResponse().setBody(n + 1); }");
        procedure.replace(changed);
        assertEquals("42", execute("life", 41));
        assertTrue(scripts.readAllStoredProcedures().stream().anyMatch(p -> p.getId().equals("life")));
        assertEquals(204, procedure.delete().getStatusCode());
        fails(404, procedure::read);
    }

    @Test
    void aProcedureWritesAllOrNothing() {
        container.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("two", """
                function two(fail) {
                    const container = getContext().getCollection();
                    for (const id of ["two-1", "two-2"]) {
                        container.createDocument(container.getSelfLink(), { id, pk: "a", n: 1 });
                    }
                    if (fail) throw new Error("on purpose");
                    getContext().getResponse().setBody("done");
                }"""));
        var error = fails(400, () -> execute("two", true));
        assertTrue(error.getMessage().contains("on purpose"), error.getMessage());
        fails(404, () -> container.readItem("two-1", KEY, Item.class));
        assertEquals("\"done\"", execute("two", false));
        container.readItem("two-2", KEY, Item.class);
    }

    @Test
    void whatAProcedureLogsIsToldWhenAsked() {
        container.getScripts().createStoredProcedure(
                new CosmosStoredProcedureProperties("log", "function log() { console.log('hello, world'); }"));
        var options = new CosmosStoredProcedureRequestOptions().setPartitionKey(KEY).setScriptLoggingEnabled(true);
        var reply = container.getScripts().getStoredProcedure("log").execute(List.of(), options);
        assertEquals("hello, world", reply.getScriptLog());
    }

    @Test
    void triggersRunInTheWriteThatNamesThem() {
        var scripts = container.getScripts();
        scripts.createTrigger(new CosmosTriggerProperties("double", """
                function double() {
                    const request = getContext().getRequest();
                    const item = request.getBody();
                    item.n *= 2;
                    request.setBody(item);
                }""").setTriggerType(TriggerType.PRE).setTriggerOperation(TriggerOperation.CREATE));
        scripts.createTrigger(new CosmosTriggerProperties("refuse", "function refuse() { throw new Error('not today'); }")
                .setTriggerType(TriggerType.POST).setTriggerOperation(TriggerOperation.ALL));
        var doubled = new CosmosItemRequestOptions().setPreTriggerInclude(List.of("double"));
        assertEquals(42, container.createItem(new Item("t1", "a", 21), KEY, doubled).getItem().n());
        var refused = new CosmosItemRequestOptions().setPostTriggerInclude(List.of("refuse"));
        fails(400, () -> container.createItem(new Item("t2", "a", 1), KEY, refused));
        fails(404, () -> container.readItem("t2", KEY, Item.class));
        assertEquals(2, scripts.readAllTriggers().stream().count());
    }

    @Test
    void aFunctionIsCalledInAQuery() {
        container.getScripts().createUserDefinedFunction(
                new CosmosUserDefinedFunctionProperties("square", "function square(n) { return n * n; }"));
        container.createItem(new Item("u1", "u", 7));
        var found = container.queryItems(
                "SELECT VALUE udf.square(c.n) FROM c WHERE c.pk = 'u'", new CosmosQueryRequestOptions(), Integer.class);
        assertEquals(List.of(49), found.stream().toList());
    }
}
