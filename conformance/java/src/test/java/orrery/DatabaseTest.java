package orrery;

import static orrery.Place.client;
import static orrery.Place.fails;
import static orrery.Place.unique;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.models.CosmosDatabaseProperties;
import com.azure.cosmos.models.CosmosDatabaseRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.ThroughputProperties;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Databases: their life, queries over them, and their throughput. */
class DatabaseTest {
    @Test
    void aDatabaseIsCreatedReadAndDeleted() {
        var id = unique("java");
        var created = client().createDatabase(id);
        assertEquals(201, created.getStatusCode());
        assertTrue(created.getRequestCharge() > 0);
        var database = client().getDatabase(id);
        var properties = database.read().getProperties();
        assertEquals(id, properties.getId());
        assertEquals(created.getProperties().getETag(), properties.getETag());
        assertNotNull(properties.getResourceId());
        fails(409, () -> client().createDatabase(id));
        assertEquals(200, client().createDatabaseIfNotExists(id).getStatusCode());
        assertEquals(204, database.delete().getStatusCode());
        fails(404, database::read);
    }

    @Test
    void aDatabaseIsDeletedOnlyIfItIsAsExpected() {
        var id = unique("java");
        client().createDatabase(id);
        var database = client().getDatabase(id);
        var stale = new CosmosDatabaseRequestOptions()
                .setIfMatchETag("\"00000000-0000-0000-0000-000000000000\"");
        fails(412, () -> database.delete(stale));
        database.delete();
    }

    @Test
    void databasesAreFoundByAQuery() {
        var id = unique("java");
        client().createDatabase(id);
        var query = new SqlQuerySpec(
                "SELECT * FROM root r WHERE r.id = @id", List.of(new SqlParameter("@id", id)));
        var found = client().queryDatabases(query, new CosmosQueryRequestOptions()).stream()
                .map(CosmosDatabaseProperties::getId).toList();
        assertEquals(List.of(id), found);
        client().getDatabase(id).delete();
    }

    @Test
    void throughputIsSharedReadAndReplaced() {
        var id = unique("java");
        client().createDatabase(id, ThroughputProperties.createManualThroughput(500));
        var database = client().getDatabase(id);
        assertEquals(500, database.readThroughput().getProperties().getManualThroughput());
        var replaced = database.replaceThroughput(ThroughputProperties.createManualThroughput(700));
        assertFalse(replaced.isReplacePending());
        assertEquals(700, database.readThroughput().getProperties().getManualThroughput());
        database.delete();
    }
}
