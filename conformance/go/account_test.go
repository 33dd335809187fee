// The door: who may come in, and over which scheme.

package conformance

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestAConnectionStringOpensTheAccount(t *testing.T) {
	database := scratch(t)
	text := "AccountEndpoint=" + endpoint + ";AccountKey=" + key + ";"
	client, err := azcosmos.NewClientFromConnectionString(text, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: transport},
	})
	check(t, err)
	t.Cleanup(client.Close)
	same, err := client.NewDatabase(database.ID())
	check(t, err)
	reply, err := same.Read(ctx(t), nil)
	check(t, err)
	equal(t, reply.DatabaseProperties.ID, database.ID())
}

func TestAWrongKeyIsRefused(t *testing.T) {
	wrong := base64.StdEncoding.EncodeToString([]byte("this key opens nothing"))
	credential, err := azcosmos.NewKeyCredential(wrong)
	check(t, err)
	client, err := azcosmos.NewClientWithKey(endpoint, credential, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			Transport: transport,
			Retry:     policy.RetryOptions{MaxRetries: -1},
		},
	})
	check(t, err)
	t.Cleanup(client.Close)
	_, err = client.CreateDatabase(ctx(t), azcosmos.DatabaseProperties{ID: unique("go")}, nil)
	fails(t, err, http.StatusUnauthorized)
}

func TestTheServersCertificateIsTrustedOnceItIsKnown(t *testing.T) {
	if !strings.HasPrefix(endpoint, "https:") {
		t.Skip("plain HTTP has no certificate")
	}
	address, err := url.Parse(endpoint)
	check(t, err)
	// A client that was not told about the certificate must not accept it.
	if _, err := (&http.Client{}).Get(address.String()); err == nil {
		t.Fatal("a certificate that nobody vouches for was accepted")
	}
	reply, err := transport.Get(endpoint + "readyz")
	check(t, err)
	defer reply.Body.Close()
	equal(t, reply.StatusCode, http.StatusOK)
	if len(reply.TLS.PeerCertificates) == 0 {
		t.Fatal("no certificate was shown")
	}
	check(t, reply.TLS.PeerCertificates[0].VerifyHostname(address.Hostname()))
}
