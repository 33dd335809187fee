package orrery.junit;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A running server, in memory and on a free port. It ends with this process, however that ends: it stops when its
 * standard input does.
 */
public final class OrreryServer implements AutoCloseable {
    // Starting takes well under a second; a machine that is busy compiling may need longer.
    private static final int START_SECONDS_MAX = 30;
    private static final int STOP_SECONDS_MAX = 15;
    private static final Pattern ENDPOINT = Pattern.compile("\"(https?://[^\"]+)\"");

    private final Process process;
    private final String endpoint;
    private final String key;

    private OrreryServer(Process process, String endpoint, String key) {
        this.process = process;
        this.endpoint = endpoint;
        this.key = key;
    }

    /** Starts a server in memory, with further arguments of {@code orrery serve}. */
    public static OrreryServer start(String... arguments) {
        byte[] secret = new byte[64];
        new SecureRandom().nextBytes(secret);
        String key = Base64.getEncoder().encodeToString(secret);
        String program = findProgram(System.getenv("ORRERY_BINARY"), System.getenv("PATH"));
        List<String> command = new ArrayList<>(List.of(program, "serve", "--stop-at-eof", "--log-format", "json", "--log", "error"));
        List<String> given = List.of(arguments);
        if (!given.contains("--listen")) {
            command.addAll(List.of("--listen", "127.0.0.1:0"));
        }
        if (!given.contains("--data")) {
            command.add("--memory");
        }
        command.addAll(given);
        ProcessBuilder builder = new ProcessBuilder(command);
        // Settings that this machine has for its own server are not meant for this one.
        builder.environment().keySet().removeIf(name -> name.startsWith("ORRERY_"));
        builder.environment().put("ORRERY_KEY", key);
        Process process;
        try {
            process = builder.start();
        } catch (IOException error) {
            throw new IllegalStateException("orrery: " + program + " cannot be started: " + error.getMessage());
        }
        StringBuffer log = new StringBuffer();
        Thread reader = new Thread(() -> read(process, log), "orrery-log");
        reader.setDaemon(true);
        reader.start();
        String line = announcement(process);
        if (line == null) {
            // Its last words first: ending a process closes its pipes. One that has ended by itself closes them, too.
            join(reader);
            process.destroyForcibly();
            throw new IllegalStateException("orrery: the server did not start: " + log.toString().strip());
        }
        return new OrreryServer(process, endpoint(line), key);
    }

    /** The first line of standard output, or null if there is none in time. */
    private static String announcement(Process process) {
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        CompletableFuture<String> line = CompletableFuture.supplyAsync(() -> {
            try {
                return out.readLine();
            } catch (IOException ended) {
                return null;
            }
        });
        try {
            return line.get(START_SECONDS_MAX, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return null;
        } catch (ExecutionException | TimeoutException failed) {
            return null;
        }
    }

    private static String endpoint(String line) {
        Matcher found = ENDPOINT.matcher(line);
        String first = null;
        while (found.find()) {
            if (found.group(1).startsWith("http:")) {
                return found.group(1);
            }
            first = first == null ? found.group(1) : first;
        }
        return first;
    }

    /** Nobody else reads its log, and a full pipe would stop it. */
    private static void read(Process process, StringBuffer log) {
        try (BufferedReader lines = process.errorReader(StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (log.length() < 65536) {
                    log.append(line).append('\n');
                }
            }
        } catch (IOException ended) {
            // It is gone.
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join(2000);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    static String findProgram(String named, String path) {
        if (named != null && !named.isEmpty()) {
            if (!new File(named).isFile()) {
                throw new IllegalStateException("orrery: ORRERY_BINARY is '" + named + "', and there is no such file");
            }
            return named;
        }
        for (String folder : (path == null ? "" : path).split(File.pathSeparator)) {
            for (String name : List.of("orrery", "orrery.exe")) {
                File file = new File(folder, name);
                if (file.isFile() && file.canExecute()) {
                    return file.getPath();
                }
            }
        }
        throw new IllegalStateException("orrery: the program is not installed; put it into PATH, or set ORRERY_BINARY");
    }

    public String endpoint() {
        return endpoint;
    }

    public String key() {
        return key;
    }

    public String connectionString() {
        return "AccountEndpoint=" + endpoint + ";AccountKey=" + key + ";";
    }

    public int port() {
        return java.net.URI.create(endpoint).getPort();
    }

    /** Stops the server and waits until it has ended. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(STOP_SECONDS_MAX, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (IOException ended) {
            process.destroyForcibly();
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
