package orrery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosDatabaseProperties;
import com.azure.cosmos.models.PartitionKey;
import java.net.URI;
import java.util.Base64;
import java.util.List;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The door: who may come in, and over which scheme. */
class AccountTest {
    @RegisterExtension static final Place place = new Place();

    @Test
    void theAccountOpensWithItsKey() {
        var found = Place.client().readAllDatabases().stream().map(CosmosDatabaseProperties::getId);
        assertTrue(found.anyMatch(place.database.getId()::equals));
    }

    @Test
    void aWrongKeyIsRefused() {
        var wrong = Base64.getEncoder().encodeToString("this key opens nothing".getBytes());
        // The client reads the account when it is made, and wraps what it is told.
        var error = assertThrows(RuntimeException.class, () -> Place.builder().key(wrong).buildClient());
        var cause = assertInstanceOf(CosmosException.class, error.getCause());
        assertEquals(401, cause.getStatusCode());
    }

    @Test
    void itemsGoTheWayThatTheClientWasMadeFor() {
        var container = place.container();
        var created = container.createItem(new Item("a", "p", 1));
        var read = container.readItem("a", new PartitionKey("p"), Item.class);
        for (var response : List.of(created, read)) {
            assertEquals(Place.DIRECT, response.getDiagnostics().toString().contains("rntbd://"));
        }
    }

    @Test
    @EnabledIfEnvironmentVariable(named = "ORRERY_ENDPOINT", matches = "https:.*")
    void theServersCertificateIsTrustedOnceItIsInTheTrustStore() throws Exception {
        assertTrue(System.getProperty("javax.net.ssl.trustStore", "").length() > 0);
        var address = URI.create(Place.ENDPOINT);
        // The default factory checks the chain and, asked for HTTPS, the name of the host.
        try (var socket = (SSLSocket) SSLSocketFactory.getDefault()
                .createSocket(address.getHost(), address.getPort())) {
            var parameters = socket.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            socket.setSSLParameters(parameters);
            socket.startHandshake();
            assertTrue(socket.getSession().isValid());
        }
    }
}
