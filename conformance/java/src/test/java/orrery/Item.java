package orrery;

import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.annotation.JsonInclude;

/** What most tests store. */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Item(String id, String pk, int n, Integer ttl) {
    Item(String id, String pk, int n) {
        this(id, pk, n, null);
    }

    PartitionKey key() {
        return new PartitionKey(pk);
    }

    /** As the tests compare them. */
    String shown() {
        return id + ":" + n;
    }
}
