import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The control: what load.py does, with Kafka's own client. One transactional id and one thread per partition. */
public final class Load {
    public static void main(String[] a) {
        for (int p = 0; p < Integer.parseInt(a[4]); p++) {
            final int partition = p;
            new Thread(() -> work(a[0], a[1], a[2], a[3], partition, Integer.parseInt(a[5]))).start();
        }
    }

    private static void work(String bootstrap, String group, String source, String out, int partition, int records) {
        while (true) {
            try {
                live(bootstrap, group, new TopicPartition(source, partition), out, partition, records);
            } catch (KafkaException | IllegalStateException error) {
                System.out.println(partition + ": begins again: " + error);
            }
        }
    }

    @SuppressWarnings("removal") // The group alone, as a consumer without subscription says it.
    private static void live(
            String bootstrap, String group, TopicPartition source, String out, int partition, int records) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap, "transactional.id", group + "-" + partition,
                "transaction.timeout.ms", 15000, "max.block.ms", 20000, "linger.ms", 5,
                "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            long batch = committed(bootstrap, group, source);
            while (true) {
                try {
                    producer.beginTransaction();
                    for (int i = 0; i < records; i++) {
                        byte[] value = ByteBuffer.allocate(8).putLong(batch * records + i).array();
                        String at = source.topic() + "/-/" + partition + "/" + batch + "/" + i;
                        List<Header> headers = List.of(
                                new RecordHeader("source-position", at.getBytes(StandardCharsets.US_ASCII)));
                        producer.send(new ProducerRecord<>(out, partition, (byte[]) null, value, headers));
                    }
                    producer.sendOffsetsToTransaction(
                            Map.of(source, new OffsetAndMetadata(batch + 1)), new ConsumerGroupMetadata(group));
                    commit(producer);
                    batch++;
                    Thread.sleep(5);
                } catch (InterruptedException error) {
                    return;
                } catch (KafkaException error) {
                    // Throws for what cannot be aborted, and the producer is made anew.
                    producer.abortTransaction();
                }
            }
        }
    }

    /** A commit that timed out may be asked for again, as the client's contract says. */
    private static void commit(KafkaProducer<byte[], byte[]> producer) {
        try {
            producer.commitTransaction();
        } catch (TimeoutException error) {
            producer.commitTransaction();
        }
    }

    private static long committed(String bootstrap, String group, TopicPartition source) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap, "group.id", group, "isolation.level", "read_committed",
                "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            OffsetAndMetadata found = consumer.committed(Set.of(source), Duration.ofSeconds(20)).get(source);
            return found == null ? 0 : found.offset();
        }
    }
}
