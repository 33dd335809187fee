// Clients that sign in with tokens of a directory, on a server whose keys are switched off. The tokens are real: a
// test issuer signs them, and the server reads its key set. `cargo xtask conformance go` starts both, and runs this
// file over TLS only, as the SDK sends tokens.

package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const (
	dataReader      = "00000000-0000-0000-0000-000000000001"
	dataContributor = "00000000-0000-0000-0000-000000000002"
	actions         = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/"
	ownScope        = "https://localhost/.default"
)

// issuerCredential gets the tokens of one principal, as a credential of azidentity does; the SDK keeps a token while
// it seems valid.
type issuerCredential struct {
	principal string
	lifetime  time.Duration
	// scope is asked for in place of the SDK's, unless it is empty.
	scope string
	asked []string
}

func (c *issuerCredential) GetToken(
	ctx context.Context, options policy.TokenRequestOptions,
) (azcore.AccessToken, error) {
	c.asked = append(c.asked, options.Scopes...)
	scope := c.scope
	if scope == "" {
		scope = options.Scopes[0]
	}
	token, err := issued(ctx, c.principal, scope, c.lifetime)
	return azcore.AccessToken{Token: token, ExpiresOn: time.Now().Add(time.Hour)}, err
}

// issued asks the issuer for a token.
func issued(ctx context.Context, principal, scope string, lifetime time.Duration) (string, error) {
	body, err := json.Marshal(map[string]any{
		"principal": principal, "scope": scope, "lifetime": int(lifetime.Seconds()),
	})
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"access_token"`
		Error string `json:"error"`
	}
	if err := atIssuer(ctx, http.MethodPost, "token", body, &answer); err != nil {
		return "", err
	}
	if answer.Error != "" {
		return "", errors.New(answer.Error)
	}
	return answer.Token, nil
}

func atIssuer(ctx context.Context, method, path string, body []byte, answer any) error {
	url := os.Getenv("ORRERY_ISSUER") + path
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	return json.NewDecoder(reply.Body).Decode(answer)
}

// entraShop is a database with two containers, and a principal for each of several rights.
type entraShop struct {
	endpoint, database, reader, writer, clerk string
	transport                                 *http.Client
}

// shopWithTokens is made once for all tests; its server ends with them.
var shopWithTokens = sync.OnceValue(func() entraShop {
	shop := entraShop{
		endpoint: os.Getenv("ORRERY_ENTRA_ENDPOINT"),
		database: unique("entra"), reader: guid(), writer: guid(), clerk: guid(),
	}
	var err error
	shop.transport, err = trusting(shop.endpoint)
	must(err)
	client := shop.client(&issuerCredential{principal: os.Getenv("ORRERY_ADMINISTRATOR"), lifetime: time.Hour})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: shop.database}, nil)
	must(err)
	database, err := client.NewDatabase(shop.database)
	must(err)
	for _, id := range []string{"orders", "other"} {
		key := azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}
		properties := azcosmos.ContainerProperties{ID: id, PartitionKeyDefinition: key}
		_, err = database.CreateContainer(ctx, properties, nil)
		must(err)
		container, err := database.NewContainer(id)
		must(err)
		_, err = container.CreateItem(ctx, pk("p"), []byte(`{"id":"first","pk":"p","n":1}`), nil)
		must(err)
	}
	must(shop.assign(ctx, dataReader, shop.reader, "/dbs/"+shop.database))
	must(shop.assign(ctx, dataContributor, shop.writer, "/dbs/"+shop.database))
	must(shop.assign(ctx, dataContributor, shop.clerk, "/dbs/"+shop.database+"/colls/orders"))
	return shop
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func guid() string {
	bytes := make([]byte, 16)
	_, err := rand.Read(bytes)
	must(err)
	return fmt.Sprintf("%x-%x-%x-%x-%x", bytes[:4], bytes[4:6], bytes[6:8], bytes[8:10], bytes[10:])
}

// assign gives a role; the service has this in its management plane, so that no SDK has a method for it.
func (s entraShop) assign(ctx context.Context, role, principal, scope string) error {
	token, err := issued(ctx, os.Getenv("ORRERY_ADMINISTRATOR"), ownScope, time.Hour)
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"roleDefinitionId":"%s","principalId":"%s","scope":"%s"}`, role, principal, scope)
	url := s.endpoint + "_roleassignments"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("authorization", "type=aad&ver=1.0&sig="+token)
	reply, err := s.transport.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusCreated {
		return fmt.Errorf("an assignment is answered with %s", reply.Status)
	}
	return nil
}

func (s entraShop) options() *azcosmos.ClientOptions {
	return &azcosmos.ClientOptions{
		ClientOptions:                azcore.ClientOptions{Transport: s.transport, Retry: policy.RetryOptions{MaxRetries: -1}},
		EnableContentResponseOnWrite: true,
	}
}

func (s entraShop) client(credential azcore.TokenCredential) *azcosmos.Client {
	client, err := azcosmos.NewClient(s.endpoint, credential, s.options())
	must(err)
	return client
}

// container gives a container of a new client, which signs in by itself.
func (s entraShop) container(t *testing.T, credential *issuerCredential, id string) shelf {
	t.Helper()
	client := s.client(credential)
	t.Cleanup(client.Close)
	container, err := client.NewContainer(s.database, id)
	check(t, err)
	return shelf{container, t, s.database}
}

func (s entraShop) orders(t *testing.T, principal string) shelf {
	t.Helper()
	return s.container(t, &issuerCredential{principal: principal, lifetime: time.Hour}, "orders")
}

// refuses: the call must have failed with this status, this sub-status and a message that has a text.
func refuses(t *testing.T, err error, status int, sub, text string) {
	t.Helper()
	refusal := fails(t, err, status)
	equal(t, substatus(refusal), sub)
	if !strings.Contains(refusal.Error(), text) {
		t.Fatalf("%q is not in %v", text, refusal)
	}
}

func (s shelf) queried(text string, key azcosmos.PartitionKey) (found []string) {
	s.t.Helper()
	pager := s.NewQueryItemsPager(text, key, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx(s.t))
		check(s.t, err)
		found = append(found, decodeAll[string](s.t, page.Items)...)
	}
	return found
}

func TestEntraADataContributorReadsAndWritesItems(t *testing.T) {
	shop := shopWithTokens()
	orders := shop.orders(t, shop.writer)
	orders.create(item{ID: "a", PK: "w", N: 1})
	orders.upsert(item{ID: "b", PK: "w", N: 2})
	_, err := orders.ReplaceItem(ctx(t), pk("w"), "a", encode(t, item{ID: "a", PK: "w", N: 3}), nil)
	check(t, err)
	var patch azcosmos.PatchOperations
	patch.AppendIncrement("/n", 4)
	_, err = orders.PatchItem(ctx(t), pk("w"), "a", patch, nil)
	check(t, err)
	equal(t, orders.read("a", "w").N, 7)
	batch := orders.NewTransactionalBatch(pk("w"))
	batch.CreateItem(encode(t, item{ID: "c", PK: "w", N: 5}), nil)
	batch.ReadItem("a", nil)
	batch.DeleteItem("b", nil)
	equalAll(t, statuses(orders.run(batch)), []int{201, 200, 204})
	equalAll(t, orders.queried("SELECT VALUE c.id FROM c ORDER BY c.n", pk("w")), []string{"c", "a"})
	everywhere := azcosmos.NewPartitionKey()
	equalAll(t, orders.queried("SELECT VALUE c.id FROM c WHERE c.id = 'c'", everywhere), []string{"c"})
	var changed []string
	for _, each := range orders.feedRanges() {
		found, _ := orders.pull(azcosmos.ChangeFeedOptions{FeedRange: &each})
		changed = append(changed, found...)
	}
	equal(t, slices.Contains(changed, "a:7") && slices.Contains(changed, "c:5"), true)
	many, err := orders.ReadManyItems(ctx(t), []azcosmos.ItemIdentity{
		{ID: "a", PartitionKey: pk("w")}, {ID: "c", PartitionKey: pk("w")},
	}, nil)
	check(t, err)
	equal(t, len(many.Items), 2)
	orders.delete("a", "w")
	orders.delete("c", "w")
	equal(t, len(orders.queried("SELECT VALUE c.id FROM c", pk("w"))), 0)
}

func TestEntraADataReaderReadsAndIsRefusedEveryWriteByName(t *testing.T) {
	shop := shopWithTokens()
	orders := shop.orders(t, shop.reader)
	equal(t, orders.read("first", "p").N, 1)
	equalAll(t, orders.queried("SELECT VALUE c.id FROM c", pk("p")), []string{"first"})
	changed := encode(t, item{ID: "first", PK: "p", N: 2})
	created := encode(t, item{ID: "x", PK: "p"})
	calls := []struct {
		action string
		call   func() error
	}{
		{"create", func() error { _, err := orders.CreateItem(ctx(t), pk("p"), created, nil); return err }},
		{"replace", func() error {
			_, err := orders.ReplaceItem(ctx(t), pk("p"), "first", changed, nil)
			return err
		}},
		{"upsert", func() error { _, err := orders.UpsertItem(ctx(t), pk("p"), changed, nil); return err }},
		{"replace", func() error {
			var patch azcosmos.PatchOperations
			patch.AppendIncrement("/n", 4)
			_, err := orders.PatchItem(ctx(t), pk("p"), "first", patch, nil)
			return err
		}},
		{"delete", func() error { _, err := orders.DeleteItem(ctx(t), pk("p"), "first", nil); return err }},
		{"create", func() error {
			batch := orders.NewTransactionalBatch(pk("p"))
			batch.ReadItem("first", nil)
			batch.CreateItem(created, nil)
			_, err := orders.ExecuteTransactionalBatch(ctx(t), batch, nil)
			return err
		}},
	}
	for _, each := range calls {
		refuses(t, each.call(), http.StatusForbidden, "5302", fmt.Sprintf(
			"principal [%s] does not have required RBAC permissions to perform action [%sitems/%s] on resource "+
				"[dbs/%s/colls/orders]", shop.reader, actions, each.action, shop.database))
	}
	equal(t, orders.read("first", "p").N, 1)
}

func TestEntraManagementNeedsMoreThanAnyDataRole(t *testing.T) {
	shop := shopWithTokens()
	client := shop.client(&issuerCredential{principal: shop.writer, lifetime: time.Hour})
	t.Cleanup(client.Close)
	database, err := client.NewDatabase(shop.database)
	check(t, err)
	orders, err := database.NewContainer("orders")
	check(t, err)
	key := azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}
	none := azcosmos.ContainerProperties{ID: "none", PartitionKeyDefinition: key}
	calls := map[string]func() error{
		"create a database": func() error {
			_, err := client.CreateDatabase(ctx(t), azcosmos.DatabaseProperties{ID: "none"}, nil)
			return err
		},
		"delete a database":  func() error { _, err := database.Delete(ctx(t), nil); return err },
		"create a container": func() error { _, err := database.CreateContainer(ctx(t), none, nil); return err },
		"delete a container": func() error { _, err := orders.Delete(ctx(t), nil); return err },
		"read throughput":    func() error { _, err := orders.ReadThroughput(ctx(t), nil); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			refuses(t, call(), http.StatusForbidden, "5300", "cannot be authorized by AAD token in data plane")
		})
	}
	// What it may read of the catalog.
	found, err := orders.Read(ctx(t), nil)
	check(t, err)
	equal(t, found.ContainerProperties.ID, "orders")
}

func TestEntraARoleAtAContainerEndsThere(t *testing.T) {
	shop := shopWithTokens()
	own := shop.orders(t, shop.clerk)
	own.create(item{ID: "own", PK: "c"})
	own.delete("own", "c")
	other := shop.container(t, &issuerCredential{principal: shop.clerk, lifetime: time.Hour}, "other")
	_, err := other.ReadItem(ctx(t), pk("p"), "first", nil)
	refuses(t, err, http.StatusForbidden, "5302", actions+"items/read")
	_, err = other.Read(ctx(t), nil)
	refuses(t, err, http.StatusForbidden, "5301", "readMetadata")
}

func TestEntraAPrincipalWithoutARoleAndAKeyOpenNothing(t *testing.T) {
	shop := shopWithTokens()
	_, err := shop.orders(t, guid()).ReadItem(ctx(t), pk("p"), "first", nil)
	refuses(t, err, http.StatusForbidden, "5301", "readMetadata")
	credential, err := azcosmos.NewKeyCredential(key)
	check(t, err)
	client, err := azcosmos.NewClientWithKey(shop.endpoint, credential, shop.options())
	check(t, err)
	t.Cleanup(client.Close)
	container, err := client.NewContainer(shop.database, "orders")
	check(t, err)
	_, err = container.ReadItem(ctx(t), pk("p"), "first", nil)
	refuses(t, err, http.StatusUnauthorized, "5202", "Local Authorization is disabled.")
}

func TestEntraAnExpiredTokenAndOneForAnotherAudienceAreRefused(t *testing.T) {
	shop := shopWithTokens()
	for sub, credential := range map[string]*issuerCredential{
		"5006": {principal: shop.writer, lifetime: -time.Hour},
		"5008": {principal: shop.writer, lifetime: time.Hour, scope: "https://cosmos.azure.com/.default"},
	} {
		_, err := shop.container(t, credential, "orders").ReadItem(ctx(t), pk("p"), "first", nil)
		refuses(t, err, http.StatusUnauthorized, sub, "")
	}
}

func TestEntraTheSDKAsksForTheServersOwnNameOrForTheAudienceOfASetting(t *testing.T) {
	shop := shopWithTokens()
	for audience, expected := range map[string]string{"": ownScope, "https://db.example": "https://db.example/.default"} {
		credential := &issuerCredential{principal: shop.reader, lifetime: time.Hour}
		options := shop.options()
		options.Cloud = cloud.Configuration{
			Services: map[cloud.ServiceName]cloud.ServiceConfiguration{azcosmos.ServiceName: {Audience: audience}},
		}
		client, err := azcosmos.NewClient(shop.endpoint, credential, options)
		check(t, err)
		t.Cleanup(client.Close)
		container, err := client.NewContainer(shop.database, "orders")
		check(t, err)
		orders := shelf{container, t, shop.database}
		for range 3 {
			equal(t, orders.read("first", "p").N, 1)
		}
		for _, asked := range credential.asked {
			equal(t, asked, expected)
		}
		// The account is read by a pipeline of its own, which has a token of its own.
		equal(t, len(credential.asked) <= 2, true)
	}
}

func TestEntraTheIssuerChangesItsSigningKeyWhileClientsWork(t *testing.T) {
	shop := shopWithTokens()
	old := shop.orders(t, shop.writer)
	old.upsert(item{ID: "r", PK: "r", N: 0})
	// Of both kinds in turn: RSA, then an elliptic curve, or the other way round.
	for n := range 2 {
		var made map[string]any
		check(t, atIssuer(ctx(t), http.MethodPost, "keys", nil, &made))
		var renewed shelf
		until(t, func() bool {
			renewed = shop.orders(t, shop.writer)
			return !isUnknown(renewed)
		})
		old.upsert(item{ID: "r", PK: "r", N: n})
		var patch azcosmos.PatchOperations
		patch.AppendIncrement("/n", 10)
		_, err := renewed.PatchItem(ctx(t), pk("r"), "r", patch, nil)
		check(t, err)
		equal(t, old.read("r", "r").N, n+10)
		check(t, atIssuer(ctx(t), http.MethodDelete, "keys", nil, &made))
		until(t, func() bool { return isUnknown(old) })
		equal(t, renewed.read("r", "r").N, n+10)
		old = renewed
	}
	old.delete("r", "r")
}

// isUnknown: the server has no key by which the token of a client is signed.
func isUnknown(s shelf) bool {
	s.t.Helper()
	_, err := s.ReadItem(ctx(s.t), pk("p"), "first", nil)
	if err == nil {
		return false
	}
	refuses(s.t, err, http.StatusUnauthorized, "5200", "")
	return true
}

// until asks until the answer is yes.
func until(t *testing.T, ask func() bool) {
	t.Helper()
	for range 600 {
		if ask() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("not within half a minute")
}
