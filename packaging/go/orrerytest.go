// Package orrerytest starts an installed Orrery server for the length of a test.
//
//	func TestItems(t *testing.T) {
//		server := orrerytest.Start(t)
//		client, err := azcosmos.NewClientFromConnectionString(server.ConnectionString(), nil)
//		...
//	}
//
// The server is in memory, on a free port, and stops with the test, even when that is killed.
package orrerytest

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Starting takes well under a second; a machine that is busy compiling may need longer.
const (
	startTimeMax = 30 * time.Second
	stopTimeMax  = 15 * time.Second
)

// Options say how a server is started. The zero value is a server in memory on a free port.
type Options struct {
	// Port to listen on; 0 is a free one.
	Port int
	// Data is the folder that holds the data; empty is memory.
	Data string
	// Arguments are further ones of `orrery serve`.
	Arguments []string
}

// Server is a running server.
type Server struct {
	// Endpoint is its address, with a slash at the end.
	Endpoint string
	// Key is the primary key of its account.
	Key string

	process *exec.Cmd
	input   io.Closer
	ended   chan error
	stopped sync.Once
}

// TB is what is needed of *testing.T and *testing.B.
type TB interface {
	Helper()
	Fatalf(format string, arguments ...any)
	Cleanup(func())
}

// Start starts a server in memory, and stops it when the test ends. The test fails if that is not possible.
func Start(t TB) *Server {
	t.Helper()
	server, err := Run(Options{})
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(server.Stop)
	return server
}

// Run starts a server. The caller stops it; it ends with this process at the latest.
func Run(options Options) (*Server, error) {
	program, err := findProgram()
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 64)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("orrery: %w", err)
	}
	key := base64.StdEncoding.EncodeToString(secret)
	where := []string{"--memory"}
	if options.Data != "" {
		where = []string{"--data", options.Data}
	}
	line := []string{"serve", "--stop-at-eof", "--listen", "127.0.0.1:" + strconv.Itoa(options.Port)}
	line = append(line, "--log-format", "json", "--log", "error")
	line = append(append(line, where...), options.Arguments...)
	process := exec.Command(program, line...)
	process.Env = append(environment(), "ORRERY_KEY="+key)
	log := &tail{}
	process.Stderr = log
	// The server stops at the end of its input, which comes with the end of this process.
	input, err := process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("orrery: %w", err)
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("orrery: %w", err)
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("orrery: %s cannot be started: %w", program, err)
	}
	said, ended := make(chan []byte, 1), make(chan error, 1)
	go func() {
		line, _ := bufio.NewReader(output).ReadBytes('\n')
		said <- line
		_, _ = io.Copy(io.Discard, output)
		ended <- process.Wait()
	}()
	server := &Server{Key: key, process: process, input: input, ended: ended}
	select {
	case line := <-said:
		if err := server.understand(line); err != nil {
			server.Stop()
			return nil, fmt.Errorf("orrery: the server did not start: %s", strings.TrimSpace(log.String()))
		}
		return server, nil
	case <-time.After(startTimeMax):
		server.Stop()
		return nil, fmt.Errorf("orrery: the server was not ready after %v", startTimeMax)
	}
}

func (s *Server) understand(line []byte) error {
	var announcement struct{ Endpoints []string }
	if err := json.Unmarshal(line, &announcement); err != nil {
		return err
	}
	for _, endpoint := range announcement.Endpoints {
		if s.Endpoint == "" || strings.HasPrefix(endpoint, "http:") {
			s.Endpoint = endpoint
		}
	}
	if s.Endpoint == "" {
		return errors.New("no endpoint")
	}
	return nil
}

// ConnectionString has endpoint and key, as the SDK takes it.
func (s *Server) ConnectionString() string {
	return "AccountEndpoint=" + s.Endpoint + ";AccountKey=" + s.Key + ";"
}

// Port is the port that the server listens on.
func (s *Server) Port() int {
	address, err := url.Parse(s.Endpoint)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(address.Port())
	return port
}

// Stop stops the server and waits until it has ended. It may be called more than once.
func (s *Server) Stop() {
	s.stopped.Do(func() {
		_ = s.input.Close()
		select {
		case <-s.ended:
		case <-time.After(stopTimeMax):
			_ = s.process.Process.Kill()
			<-s.ended
		}
	})
}

func findProgram() (string, error) {
	if named := os.Getenv("ORRERY_BINARY"); named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", fmt.Errorf("orrery: ORRERY_BINARY is '%s', and there is no such file", named)
		}
		return named, nil
	}
	program, err := exec.LookPath("orrery")
	if err != nil {
		return "", errors.New("orrery: the program is not installed; put it into PATH, or set ORRERY_BINARY")
	}
	return program, nil
}

// environment leaves out the settings that this machine has for a server of its own.
func environment() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "ORRERY_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// tail keeps the end of what is written.
type tail struct {
	mutex sync.Mutex
	bytes bytes.Buffer
}

func (t *tail) Write(text []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.bytes.Len() > 64*1024 {
		t.bytes.Reset()
	}
	return t.bytes.Write(text)
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.bytes.String()
}
