package orrery.junit;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives tests an {@link OrreryServer} as a parameter: one server for the whole run, started by the first test that asks
 * for it, and stopped at the end.
 *
 * <pre>{@code
 * @ExtendWith(OrreryExtension.class)
 * class ItemsTest {
 *     @Test
 *     void itemsAreKept(OrreryServer server) {
 *         var client = new CosmosClientBuilder().endpoint(server.endpoint()).key(server.key()).gatewayMode().buildClient();
 *     }
 * }
 * }</pre>
 */
public final class OrreryExtension implements ParameterResolver {
    private static final Namespace NAMESPACE = Namespace.create(OrreryExtension.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == OrreryServer.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        // What the root's store holds is closed when the run ends.
        return context.getRoot().getStore(NAMESPACE)
            .getOrComputeIfAbsent(Shared.class, type -> new Shared(OrreryServer.start()), Shared.class).server;
    }

    private record Shared(OrreryServer server) implements CloseableResource {
        @Override
        public void close() {
            server.close();
        }
    }
}
