import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * The bench job on Kafka Streams: the same records, rows, output and guarantee (exactly once, RocksDB, changelog).
 *
 * <p>Arguments: a properties file for Streams; keys that begin with "bench." are ours: source, out, schemas (folder),
 * records, warm, caching. Prints one line of JSON: what was processed from record number `warm` in a processor's hands
 * to the last offset committed, with wall and CPU time of this process in between.
 */
public final class BenchWorker {
    private static final String STORE = "progress";
    private static final long POLL_MS = 5;

    private final long warm;
    private final AtomicLong seen = new AtomicLong();
    private volatile long beganWall;
    private volatile long beganCpu;

    private BenchWorker(long warm) {
        this.warm = warm;
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        new BenchWorker(Long.parseLong(properties.getProperty("bench.warm"))).run(properties);
    }

    private void run(Properties properties) throws Exception {
        String source = properties.getProperty("bench.source");
        long records = Long.parseLong(properties.getProperty("bench.records"));
        Path schemas = Path.of(properties.getProperty("bench.schemas"));
        Schema watched = new Schema.Parser().parse(new File(schemas.toFile(), "Watched.avsc"));
        Schema progress = new Schema.Parser().parse(new File(schemas.toFile(), "Progress.avsc"));

        StoreBuilder<KeyValueStore<byte[], byte[]>> store = Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(STORE), Serdes.ByteArray(), Serdes.ByteArray());
        store = Boolean.parseBoolean(properties.getProperty("bench.caching"))
                ? store.withCachingEnabled() : store.withCachingDisabled();
        Topology topology = new Topology();
        topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), source);
        topology.addProcessor("job", () -> new Job(watched, progress), "source");
        topology.addStateStore(store, "job");
        topology.addSink("out", properties.getProperty("bench.out"),
                new ByteArraySerializer(), new ByteArraySerializer(), "job");

        try (KafkaStreams streams = new KafkaStreams(topology, properties);
                Admin admin = Admin.create(properties)) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
                return null;
            });
            streams.start();
            while (seen.get() < records) {
                Thread.sleep(POLL_MS);
            }
            String group = properties.getProperty(StreamsConfig.APPLICATION_ID_CONFIG);
            while (committed(admin, group) < records) {
                Thread.sleep(POLL_MS);
            }
            double wall = (System.nanoTime() - beganWall) / 1e9;
            double cpu = (cpuNanos() - beganCpu) / 1e9;
            System.out.printf(
                    "{\"records\": %d, \"wall_s\": %s, \"cpu_s\": %s, \"peak_rss_mib\": %s, \"java\": \"%s\"}%n",
                    seen.get() - warm, wall, cpu, peakMib(), System.getProperty("java.version"));
            streams.close(Duration.ofSeconds(20));
        }
    }

    private static long committed(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values().stream()
                .mapToLong(position -> position == null ? 0 : position.offset()).sum();
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    /** The largest resident size so far, where the kernel tells (Linux), else 0. */
    private static double peakMib() throws IOException {
        Path status = Path.of("/proc/self/status");
        if (!Files.exists(status)) {
            return 0;
        }
        return Files.readAllLines(status).stream().filter(line -> line.startsWith("VmHWM:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).findFirst().orElse(0) / 1024.0;
    }

    /** One task's processor: decode, get, set, encode, forward. Everything that can be reused is. */
    private final class Job implements Processor<byte[], byte[], byte[], byte[]> {
        private final GenericDatumReader<GenericRecord> watchedReader;
        private final GenericDatumReader<GenericRecord> progressReader;
        private final GenericDatumWriter<GenericRecord> progressWriter;
        private final int position;
        private final int device;
        private final int at;
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(128);
        private GenericRecord event;
        private GenericRecord row;
        private BinaryDecoder decoder;
        private BinaryEncoder encoder;
        private ProcessorContext<byte[], byte[]> context;
        private KeyValueStore<byte[], byte[]> store;

        Job(Schema watched, Schema progress) {
            watchedReader = new GenericDatumReader<>(watched);
            progressReader = new GenericDatumReader<>(progress);
            progressWriter = new GenericDatumWriter<>(progress);
            position = watched.getField("position_ms").pos();
            device = watched.getField("device").pos();
            at = watched.getField("at").pos();
            row = new GenericData.Record(progress);
        }

        @Override
        public void init(ProcessorContext<byte[], byte[]> given) {
            context = given;
            store = given.getStateStore(STORE);
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            if (seen.incrementAndGet() == warm + 1) {
                beganCpu = cpuNanos();
                beganWall = System.nanoTime();
            }
            try {
                byte[] after = step(record.value(), store.get(record.key()));
                store.put(record.key(), after);
                context.forward(record.withValue(after));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        // Progress: reports, position_ms, total_ms, device, at.
        private byte[] step(byte[] value, byte[] before) throws IOException {
            decoder = DecoderFactory.get().binaryDecoder(value, decoder);
            event = watchedReader.read(event, decoder);
            long moved = (Long) event.get(position);
            long count = 1;
            long total = moved;
            if (before != null) {
                decoder = DecoderFactory.get().binaryDecoder(before, decoder);
                row = progressReader.read(row, decoder);
                count = (Long) row.get(0) + 1;
                total = (Long) row.get(2) + Math.abs(moved - (Long) row.get(1));
            }
            row.put(0, count);
            row.put(1, moved);
            row.put(2, total);
            row.put(3, event.get(device));
            row.put(4, event.get(at));
            bytes.reset();
            encoder = EncoderFactory.get().binaryEncoder(bytes, encoder);
            progressWriter.write(row, encoder);
            encoder.flush();
            return bytes.toByteArray();
        }
    }
}
