// What every test needs: clients of the server under test, a database and containers of its own, and
// signed requests for what the SDK has no method for. `cargo xtask conformance go` sets
// ORRERY_ENDPOINT and ORRERY_KEY.

package conformance

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

var (
	endpoint = os.Getenv("ORRERY_ENDPOINT")
	key      = os.Getenv("ORRERY_KEY")
	// transport trusts the certificate that the server made for itself, and no other.
	transport *http.Client
)

func TestMain(m *testing.M) {
	if endpoint == "" || key == "" {
		fmt.Fprintln(os.Stderr, "ORRERY_ENDPOINT or ORRERY_KEY is not set; run `cargo xtask conformance go`")
		os.Exit(2)
	}
	var err error
	if transport, err = trusting(endpoint); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// trusting does what a user does: fetches a server's certificate once, without being able to
// check it, and then accepts only that one.
func trusting(endpoint string) (*http.Client, error) {
	blind := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	reply, err := blind.Get(endpoint + "_explorer/emulator.pem")
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	pem, err := io.ReadAll(reply.Body)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s serves no certificate: %s", endpoint, reply.Status)
	}
	settings := &tls.Config{RootCAs: roots}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings}}, nil
}

// connect gives a new client that answers writes with the item and tries nothing twice.
func connect(t *testing.T) *azcosmos.Client {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(key)
	check(t, err)
	client, err := azcosmos.NewClientWithKey(endpoint, credential, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			Transport: transport,
			Retry:     policy.RetryOptions{MaxRetries: -1},
		},
		EnableContentResponseOnWrite: true,
	})
	check(t, err)
	t.Cleanup(client.Close)
	return client
}

// scratch makes a database that is deleted after the test.
func scratch(t *testing.T) *azcosmos.DatabaseClient {
	t.Helper()
	client := connect(t)
	id := unique("go")
	_, err := client.CreateDatabase(ctx(t), azcosmos.DatabaseProperties{ID: id}, nil)
	check(t, err)
	database, err := client.NewDatabase(id)
	check(t, err)
	t.Cleanup(func() {
		_, err := database.Delete(context.Background(), nil)
		check(t, err)
	})
	return database
}

// shelf is a container together with the test that uses it.
type shelf struct {
	*azcosmos.ContainerClient
	t        *testing.T
	database string
}

// newShelf makes a container in a new database; its partition key is /pk unless a change says else.
func newShelf(t *testing.T, changes ...func(*azcosmos.ContainerProperties)) shelf {
	t.Helper()
	return addShelf(t, scratch(t), nil, changes...)
}

// newWideShelf makes a container with several physical partitions.
func newWideShelf(t *testing.T, partitions int32) shelf {
	t.Helper()
	throughput := azcosmos.NewManualThroughputProperties(partitions * 6_000)
	return addShelf(t, scratch(t), &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput})
}

func addShelf(
	t *testing.T,
	database *azcosmos.DatabaseClient,
	options *azcosmos.CreateContainerOptions,
	changes ...func(*azcosmos.ContainerProperties),
) shelf {
	t.Helper()
	properties := azcosmos.ContainerProperties{
		ID:                     unique("c"),
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
	}
	for _, change := range changes {
		change(&properties)
	}
	_, err := database.CreateContainer(ctx(t), properties, options)
	check(t, err)
	container, err := database.NewContainer(properties.ID)
	check(t, err)
	return shelf{container, t, database.ID()}
}

// item is what most tests store. A property that is absent stays absent.
type item struct {
	ID   string `json:"id"`
	PK   string `json:"pk"`
	N    int    `json:"n"`
	TTL  int    `json:"ttl,omitempty"`
	ETag string `json:"_etag,omitempty"`
}

func (s shelf) create(it item) azcosmos.ItemResponse {
	s.t.Helper()
	reply, err := s.CreateItem(ctx(s.t), pk(it.PK), encode(s.t, it), nil)
	check(s.t, err)
	return reply
}

func (s shelf) upsert(it item) azcosmos.ItemResponse {
	s.t.Helper()
	reply, err := s.UpsertItem(ctx(s.t), pk(it.PK), encode(s.t, it), nil)
	check(s.t, err)
	return reply
}

func (s shelf) read(id, key string) item {
	s.t.Helper()
	reply, err := s.ReadItem(ctx(s.t), pk(key), id, nil)
	check(s.t, err)
	return decode[item](s.t, reply.Value)
}

func (s shelf) delete(id, key string) {
	s.t.Helper()
	_, err := s.DeleteItem(ctx(s.t), pk(key), id, nil)
	check(s.t, err)
}

func pk(value string) azcosmos.PartitionKey { return azcosmos.NewPartitionKeyString(value) }

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	check(t, err)
	return text
}

func decode[T any](t *testing.T, text []byte) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

func decodeAll[T any](t *testing.T, texts [][]byte) []T {
	t.Helper()
	values := make([]T, 0, len(texts))
	for _, text := range texts {
		values = append(values, decode[T](t, text))
	}
	return values
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, found, expected T) {
	t.Helper()
	if found != expected {
		t.Fatalf("found %v, expected %v", found, expected)
	}
}

func equalAll[T comparable](t *testing.T, found, expected []T) {
	t.Helper()
	if !slices.Equal(found, expected) {
		t.Fatalf("found %v, expected %v", found, expected)
	}
}

// fails: the call must have failed with this status and a body that says why.
func fails(t *testing.T, err error, status int) *azcore.ResponseError {
	t.Helper()
	var refusal *azcore.ResponseError
	if !errors.As(err, &refusal) {
		t.Fatalf("should have failed with %d: %v", status, err)
	}
	if refusal.StatusCode != status {
		t.Fatalf("status %d, expected %d: %v", refusal.StatusCode, status, err)
	}
	if refusal.ErrorCode == "" {
		t.Fatalf("an error has a code: %v", err)
	}
	return refusal
}

func substatus(refusal *azcore.ResponseError) string {
	return refusal.RawResponse.Header.Get("x-ms-substatus")
}

func unique(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:8]) }

// ctx ends with the test, and long before anybody loses patience.
func ctx(t *testing.T) context.Context {
	limited, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return limited
}

// split divides the range of a container that holds most.
func (s shelf) split() {
	s.t.Helper()
	container := "dbs/" + s.database + "/colls/" + s.ID()
	send(s.t, "colls", container, container+"/operations/split", nil, http.StatusOK)
}

// post sends a signed request to a feed, such as `dbs/d/colls/c/triggers`.
func post(t *testing.T, feed string, body any) {
	t.Helper()
	parent, kind := feed[:strings.LastIndex(feed, "/")], feed[strings.LastIndex(feed, "/")+1:]
	send(t, kind, parent, feed, encode(t, body), http.StatusCreated)
}

// send posts a request that is signed for a resource and must be answered with a status.
func send(t *testing.T, kind, resource, path string, body []byte, status int) {
	t.Helper()
	date := time.Now().UTC().Format(http.TimeFormat)
	secret, err := base64.StdEncoding.DecodeString(key)
	check(t, err)
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "post\n%s\n%s\n%s\n\n", kind, resource, strings.ToLower(date))
	signature := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	request, err := http.NewRequestWithContext(ctx(t), http.MethodPost, endpoint+path, bytes.NewReader(body))
	check(t, err)
	request.Header.Set("authorization", url.QueryEscape("type=master&ver=1.0&sig="+signature))
	request.Header.Set("x-ms-date", date)
	request.Header.Set("x-ms-version", "2020-07-15")
	reply, err := transport.Do(request)
	check(t, err)
	defer reply.Body.Close()
	answer, err := io.ReadAll(reply.Body)
	check(t, err)
	if reply.StatusCode != status {
		t.Fatalf("POST %s: %s: %s", path, reply.Status, answer)
	}
}
