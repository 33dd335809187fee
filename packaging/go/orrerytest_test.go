// Twenty tests with the helper, against an installed program.
package orrerytest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func isReady(endpoint string) bool {
	answer, err := http.Get(endpoint + "readyz")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// send sends a signed request; link is what is signed.
func send(t *testing.T, server *Server, path, kind, link string, body any, headers map[string]string) (int, []byte) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, server.Endpoint+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	secret, err := base64.StdEncoding.DecodeString(server.Key)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "post\n%s\n%s\n%s\n\n", kind, link, strings.ToLower(date))
	signature := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	request.Header.Set("authorization", url.QueryEscape("type=master&ver=1.0&sig="+signature))
	request.Header.Set("x-ms-date", date)
	request.Header.Set("x-ms-version", "2020-07-15")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var content bytes.Buffer
	if _, err := content.ReadFrom(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, content.Bytes()
}

func TestStartsInUnderASecond(t *testing.T) {
	Start(t).Stop() // The first start reads the program from the disk.
	began := time.Now()
	server := Start(t)
	took := time.Since(began)
	t.Logf("started in %d ms", took.Milliseconds())
	if !isReady(server.Endpoint) || took > time.Second {
		t.Fatalf("started in %v", took)
	}
}

func TestConnectionStringHasEndpointAndKey(t *testing.T) {
	server := Start(t)
	expected := "AccountEndpoint=" + server.Endpoint + ";AccountKey=" + server.Key + ";"
	if server.ConnectionString() != expected {
		t.Fatal(server.ConnectionString())
	}
}

func TestPortIsThatOfTheEndpoint(t *testing.T) {
	server := Start(t)
	if !strings.HasSuffix(server.Endpoint, fmt.Sprintf(":%d/", server.Port())) {
		t.Fatal(server.Endpoint, server.Port())
	}
}

func TestStoppedServerIsGone(t *testing.T) {
	server := Start(t)
	server.Stop()
	server.Stop()
	if isReady(server.Endpoint) {
		t.Fatal("it answers")
	}
}

func TestDataOfAFolderOutlivesTheServer(t *testing.T) {
	data := t.TempDir()
	for round := 0; round < 2; round++ {
		server, err := Run(Options{Data: data})
		if err != nil {
			t.Fatal(err)
		}
		server.Stop()
	}
	if _, err := os.Stat(filepath.Join(data, "store")); err != nil {
		t.Fatal(err)
	}
}

func checkRefused(t *testing.T, options Options, expected string) {
	t.Helper()
	server, err := Run(options)
	if err == nil {
		server.Stop()
		t.Fatal("it started")
	}
	if !strings.Contains(err.Error(), expected) {
		t.Fatal(err)
	}
}

func TestWrongSettingIsOneSentence(t *testing.T) {
	checkRefused(t, Options{Arguments: []string{"--ranges", "0"}}, "'ranges' is '0'")
}

func TestPortThatIsTakenIsNamed(t *testing.T) {
	checkRefused(t, Options{Port: Start(t).Port()}, "in use")
}

func TestProgramThatIsMissingIsNamed(t *testing.T) {
	t.Setenv("ORRERY_BINARY", "/nowhere/orrery")
	checkRefused(t, Options{}, "/nowhere/orrery")
}

func TestProgramThatIsNotInstalledIsSaid(t *testing.T) {
	t.Setenv("ORRERY_BINARY", "")
	t.Setenv("PATH", "/nowhere")
	checkRefused(t, Options{}, "put it into PATH")
}

// The process that the next test kills.
func TestHelperThatWaits(t *testing.T) {
	if os.Getenv("WAIT_WITH_A_SERVER") == "" {
		return
	}
	fmt.Println(Start(t).Endpoint)
	time.Sleep(time.Minute)
}

func TestThatIsKilledLeavesNoServerBehind(t *testing.T) {
	test := exec.Command(os.Args[0], "-test.run", "^TestHelperThatWaits$")
	test.Env = append(os.Environ(), "WAIT_WITH_A_SERVER=1")
	output, err := test.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := test.Start(); err != nil {
		t.Fatal(err)
	}
	var endpoint string
	if _, err := fmt.Fscanln(output, &endpoint); err != nil || !isReady(endpoint) {
		t.Fatal(endpoint, err)
	}
	_ = test.Process.Kill()
	_ = test.Wait()
	for tries := 0; isReady(endpoint); tries++ {
		if tries == 200 {
			t.Fatal("the server lives on")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestItemsAreWrittenAndQueried(t *testing.T) {
	server := Start(t)
	for number := 0; number < 10; number++ {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			expect := func(status int, expected int, body []byte) {
				t.Helper()
				if status != expected {
					t.Fatalf("%d: %s", status, body)
				}
			}
			database := fmt.Sprintf("dbs/test-%d", number)
			status, body := send(t, server, "dbs", "dbs", "", map[string]any{"id": database[4:]}, nil)
			expect(status, 201, body)
			definition := map[string]any{"id": "items", "partitionKey": map[string]any{"paths": []string{"/pk"}, "kind": "Hash"}}
			status, body = send(t, server, database+"/colls", "colls", database, definition, nil)
			expect(status, 201, body)
			items := database + "/colls/items"
			key := map[string]string{"x-ms-documentdb-partitionkey": `["a"]`}
			item := map[string]any{"id": "1", "pk": "a", "number": number}
			status, body = send(t, server, items+"/docs", "docs", items, item, key)
			expect(status, 201, body)
			key["x-ms-documentdb-isquery"] = "true"
			key["content-type"] = "application/query+json"
			query := map[string]any{"query": "SELECT VALUE c.number FROM c"}
			status, body = send(t, server, items+"/docs", "docs", items, query, key)
			expect(status, 200, body)
			var found struct{ Documents []int }
			if err := json.Unmarshal(body, &found); err != nil || !reflect.DeepEqual(found.Documents, []int{number}) {
				t.Fatalf("%s %v", body, err)
			}
		})
	}
}
