package eosin.realtime;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the rows of Spark's Real-time Mode to Kafka, each once, in order per partition of the source.
 *
 * <p>Each partition of the source has a transactional id of its own. Every commit interval, one transaction holds the rows
 * since the last one and the position after them: an offset of the pipeline's group whose metadata tells how many rows of the
 * last offset were written. Always true:
 *
 * <ul>
 *   <li>the position is read after InitProducerId, when no transaction of an earlier owner is undecided;
 *   <li>rows at or before the position are skipped, so Spark may repeat whatever it likes;
 *   <li>the first transaction after InitProducerId names this owner in the position. A producer that is kept over batches is
 *       used again only while the position still names it: otherwise the partition was elsewhere meanwhile;
 *   <li>after any error the producer is given up, and the partition begins anew from its committed position.
 * </ul>
 */
public final class TxnWriter extends ForeachWriter<Row> {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(TxnWriter.class);

  /** Columns of a row, in the order in which the driver selects them. */
  private static final int SOURCE_TOPIC = 0, SOURCE_PARTITION = 1, SOURCE_OFFSET = 2, KEY = 3, VALUE = 4, TOPIC = 5;
  private static final int PARTITION = 6, HEADERS = 7;

  /** How long the first row of a transaction waits for others, even if the last commit is long ago. */
  private static final long LINGER_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  /** How long producers outlive the last task of their run in this JVM. Batches follow each other sooner. */
  private static final long KEPT_NANOS = TimeUnit.SECONDS.toNanos(60);

  private static final Duration CLOSE_LIMIT = Duration.ofSeconds(5);

  /** The runs with tasks in this JVM, by their id: a producer outlives the batch. */
  private static final Map<String, Run> RUNS = new ConcurrentHashMap<>();

  private final Settings settings;
  private transient Run run;
  private transient Thread task;
  private transient List<Partition> held;
  private transient Partition last;
  private transient long lastOffset, rowsOfOffset;

  /**
   * @param names {@code pipeline}, {@code run} (an id of this start of the query), {@code topic} (or nothing, if rows name
   *     theirs), {@code progress} (the topic for markers), {@code interval.ms}, {@code refresh.ms}, {@code adopt}
   * @param output settings of producers and admin clients
   * @param source settings of an admin client of the cluster that is read
   * @param known transactional ids that have a marker
   */
  public TxnWriter(
      Map<String, String> names, Map<String, String> output, Map<String, String> source, List<String> known) {
    this.settings = new Settings(names, output, source, known);
  }

  @Override
  public boolean open(long partitionId, long epochId) {
    task = Thread.currentThread();
    held = new ArrayList<>();
    last = null;
    run = Run.enter(settings);
    return true;
  }

  @Override
  public void process(Row row) {
    if (row.isNullAt(SOURCE_TOPIC) || row.isNullAt(SOURCE_PARTITION) || row.isNullAt(SOURCE_OFFSET)) {
      throw new IllegalArgumentException(
          "a row has no source: column source is struct('topic', 'partition', 'offset') of the row that was read");
    }
    int index = row.getInt(SOURCE_PARTITION);
    long offset = row.getLong(SOURCE_OFFSET);
    String topic = row.getString(SOURCE_TOPIC);
    if (last == null || index != last.source.partition() || !topic.equals(last.source.topic())) {
      last = hold(new TopicPartition(topic, index));
      lastOffset = -1;
    }
    if (offset < lastOffset) {
      throw new IllegalStateException(
          "rows of " + last.source + " are out of order (" + offset + " after " + lastOffset
              + "): the topic was deleted and created anew while it was read, or the frame has two readers of it");
    }
    rowsOfOffset = offset == lastOffset ? rowsOfOffset + 1 : 1;
    lastOffset = offset;
    last.write(this, row, offset, rowsOfOffset);
  }

  @Override
  public void close(Throwable error) {
    if (run == null) return;
    try {
      RuntimeException failure = null;
      for (Partition each : held) {
        if (error == null && failure == null) {
          try {
            each.finish(this);
          } catch (RuntimeException bad) {
            failure = bad;
          }
        } else {
          RuntimeException earlier = each.leave(this);
          if (failure == null) failure = earlier;
        }
      }
      if (failure != null) throw failure;
    } finally {
      run.exit();
      run = null;
    }
  }

  private Partition hold(TopicPartition source) {
    for (Partition each : held) if (each.source.equals(source)) return each;
    Partition found = run.hold(source, this);
    held.add(found);
    return found;
  }

  /** What all tasks of one start of a query know. */
  private static final class Settings implements java.io.Serializable {
    private static final long serialVersionUID = 1L;
    final HashMap<String, String> output, source;
    final Set<String> known;
    final String pipeline, run, topic, progress;
    final long intervalNanos, refreshNanos;
    final boolean adopt;

    Settings(Map<String, String> names, Map<String, String> output, Map<String, String> source, List<String> known) {
      this.output = new HashMap<>(output);
      this.source = new HashMap<>(source);
      this.known = new java.util.HashSet<>(known);
      this.pipeline = names.get("pipeline");
      this.run = names.get("run");
      this.topic = names.get("topic");
      this.progress = names.get("progress");
      this.intervalNanos = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(names.get("interval.ms")));
      this.refreshNanos = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(names.get("refresh.ms")));
      this.adopt = Boolean.parseBoolean(names.get("adopt"));
    }

    /** The transactional id of a partition. No topic has a colon in its name, so no two pairs have one id. */
    String transactionalId(TopicPartition source) {
      return pipeline + ":" + source.topic() + ":" + source.partition();
    }

    Properties producer(String transactionalId) {
      Properties all = new Properties();
      all.putAll(output);
      all.put("transactional.id", transactionalId);
      all.put("client.id", transactionalId);
      all.put("key.serializer", ByteArraySerializer.class.getName());
      all.put("value.serializer", ByteArraySerializer.class.getName());
      return all;
    }

    Properties admin(Map<String, String> given) {
      Properties all = new Properties();
      all.putAll(given);
      all.keySet().removeAll(
          List.of("compression.type", "batch.size", "linger.ms", "transaction.timeout.ms", "max.block.ms"));
      all.put("request.timeout.ms", output.get("request.timeout.ms"));
      all.put("default.api.timeout.ms", output.get("delivery.timeout.ms")); // a commit waits as long as its producer does
      return all;
    }
  }

  /** The partitions that tasks of one start of a query write in this JVM, and the connections that they share. */
  private static final class Run {
    final Settings settings;
    final Admin output, source;
    final Map<TopicPartition, Partition> partitions = new ConcurrentHashMap<>();
    private int tasks;
    private long idleSince;

    private Run(Settings settings) {
      this.settings = settings;
      this.output = Admin.create(settings.admin(settings.output));
      this.source = settings.source.equals(settings.output) ? output : Admin.create(settings.admin(settings.source));
    }

    static Run enter(Settings settings) {
      synchronized (RUNS) {
        Run found = RUNS.get(settings.run);
        if (found == null) {
          found = new Run(settings);
          RUNS.put(settings.run, found);
          Thread watch = new Thread(found::closeWhenIdle, "eosin run " + settings.run);
          watch.setDaemon(true);
          watch.start();
        }
        synchronized (found) {
          found.tasks += 1;
        }
        return found;
      }
    }

    synchronized void exit() {
      tasks -= 1;
      idleSince = System.nanoTime();
    }

    /** Give everything up once no task has been here for a while: the query has ended, or goes on elsewhere. */
    private void closeWhenIdle() {
      while (true) {
        try {
          Thread.sleep(1000);
        } catch (InterruptedException stop) {
          return;
        }
        synchronized (RUNS) {
          synchronized (this) {
            if (tasks > 0 || System.nanoTime() - idleSince < KEPT_NANOS) continue;
            RUNS.remove(settings.run, this);
          }
        }
        partitions.values().forEach(Partition::giveUp);
        output.close(CLOSE_LIMIT);
        if (source != output) source.close(CLOSE_LIMIT);
        return;
      }
    }

    Partition hold(TopicPartition source, TxnWriter holder) {
      Partition kept = partitions.get(source);
      if (kept != null && kept.holdAgain(holder)) return kept;
      Partition begun = new Partition(this, source, holder);
      partitions.put(source, begun);
      return begun;
    }

    KafkaFuture<Uuid> askTopicId(String topic) {
      return source.describeTopics(List.of(topic)).allTopicNames().thenApply(found -> found.get(topic).topicId());
    }

    /** The committed offset of a partition once no transaction about it is undecided, or null. */
    OffsetAndMetadata committed(TopicPartition partition) {
      String group = settings.pipeline;
      return result(
          output
              .listConsumerGroupOffsets(
                  Map.of(group, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(partition))),
                  new ListConsumerGroupOffsetsOptions().requireStable(true))
              .partitionsToOffsetAndMetadata(group)
              .thenApply(found -> found.get(partition)),
          "reading the position of " + partition);
    }

    private static <T> T result(KafkaFuture<T> future, String doing) {
      try {
        return future.get();
      } catch (ExecutionException error) {
        throw new IllegalStateException(doing + " failed: " + error.getCause().getMessage(), error.getCause());
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException(doing + " was interrupted", error);
      }
    }
  }

  /** The last row that was written of a partition of the source. Its text is the metadata of the committed offset. */
  private static final class Position {
    private static final Pattern TEXT =
        Pattern.compile(
            "\\{\"v\":1,\"offset\":(-?\\d+),\"rows\":(\\d+),\"topic_id\":\"([^\"]*)\",\"owner\":\"([^\"]*)\""
                + "(?:,\"at\":\\d+)?\\}");
    final long offset, rows;
    final String topicId, owner;

    Position(long offset, long rows, String topicId, String owner) {
      this.offset = offset;
      this.rows = rows;
      this.topicId = topicId;
      this.owner = owner;
    }

    /** Everything before an offset that a tool has set was written, since the tool knows nothing of rows. */
    static Position of(OffsetAndMetadata committed) {
      Matcher found = TEXT.matcher(committed.metadata() == null ? "" : committed.metadata());
      if (!found.matches() || Long.parseLong(found.group(1)) + 1 != committed.offset()) {
        return new Position(committed.offset() - 1, Long.MAX_VALUE, "", "");
      }
      return new Position(
          Long.parseLong(found.group(1)), Long.parseLong(found.group(2)), found.group(3), found.group(4));
    }

    /** Has the time of the commit, by which the driver sees that somebody keeps this position. */
    OffsetAndMetadata offsetOf(String topicId, String owner) {
      String text =
          "{\"v\":1,\"offset\":" + offset + ",\"rows\":" + rows + ",\"topic_id\":\"" + topicId + "\",\"owner\":\"" + owner
              + "\",\"at\":" + System.currentTimeMillis() + "}";
      return new OffsetAndMetadata(offset + 1, text);
    }

    boolean covers(long offset, long rows) {
      return offset < this.offset || offset == this.offset && rows <= this.rows;
    }
  }

  /** One partition of the source: its producer, its position, and the thread that commits. */
  private static final class Partition implements Runnable {
    final Run run;
    final TopicPartition source;
    private final String owner = UUID.randomUUID().toString();
    private final ReentrantLock lock = new ReentrantLock(true);
    private final Condition changed = lock.newCondition();
    private final KafkaProducer<byte[], byte[]> producer;
    private final ConsumerGroupMetadata group;
    private final String topicId;
    private TxnWriter holder;
    private Position position;
    private boolean hasMarker;
    /** The committed position names this owner. */
    private boolean isNamed;
    private boolean isOpen, isOver;
    private long dueAt, lastCommit;
    private RuntimeException failure;

    Partition(Run run, TopicPartition source, TxnWriter holder) {
      this.run = run;
      this.source = source;
      this.holder = holder;
      Settings settings = run.settings;
      String id = settings.transactionalId(source);
      this.group = new ConsumerGroupMetadata(settings.pipeline);
      this.producer = new KafkaProducer<>(settings.producer(id));
      try {
        producer.initTransactions(); // the previous owner's last transaction has an end now
        this.topicId = topicIdNow(run.askTopicId(source.topic()));
        OffsetAndMetadata committed = run.committed(source);
        Position found = committed == null ? null : Position.of(committed);
        if (found != null && !found.topicId.isEmpty() && !found.topicId.equals(topicId)) {
          if (!settings.adopt) throw anew();
          found = null;
        }
        this.position = found;
        this.hasMarker = settings.known.contains(id);
      } catch (RuntimeException error) {
        producer.close(Duration.ZERO);
        throw explained(error);
      }
      this.lastCommit = System.nanoTime() - settings.intervalNanos;
      Thread thread = new Thread(this, "eosin commits " + source);
      thread.setDaemon(true);
      thread.start();
    }

    /** Begin a task of a later batch. False if the partition has to begin anew. */
    boolean holdAgain(TxnWriter next) {
      lock.lock();
      try {
        boolean isFit = !isOver && failure == null && !isOpen && isNamed;
        if (isFit) {
          OffsetAndMetadata committed = run.committed(source);
          isFit = committed != null && Position.of(committed).owner.equals(owner)
              && committed.offset() == position.offset + 1 && topicId.equals(topicIdNow(run.askTopicId(source.topic())));
        }
        if (!isFit) {
          if (failure == null) failure = new IllegalStateException(source + " is written by another task now");
          over();
          return false;
        }
        holder = next;
        return true;
      } finally {
        lock.unlock();
      }
    }

    void write(TxnWriter writer, Row row, long offset, long rows) {
      lock.lock();
      try {
        check(writer);
        if (position != null && position.covers(offset, rows)) return;
        if (!isOpen) {
          producer.beginTransaction();
          isOpen = true;
          dueAt = Math.max(System.nanoTime() + LINGER_NANOS, lastCommit + run.settings.intervalNanos);
          changed.signal();
        }
        producer.send(record(row));
        position = new Position(offset, rows, topicId, owner);
      } catch (RuntimeException error) {
        throw fail(error);
      } finally {
        lock.unlock();
      }
    }

    /** Commit what a task has written. */
    void finish(TxnWriter writer) {
      lock.lock();
      try {
        check(writer);
        if (isOpen || position != null && !isNamed) commit();
        holder = null;
      } catch (RuntimeException error) {
        throw fail(error);
      } finally {
        lock.unlock();
      }
    }

    /** Give up what a task that failed has written; the next one begins anew. Returns the error of a commit, or null. */
    RuntimeException leave(TxnWriter writer) {
      lock.lock();
      try {
        if (holder != writer) return null;
        holder = null;
        over();
        return failure;
      } finally {
        lock.unlock();
      }
    }

    void giveUp() {
      lock.lock();
      try {
        over();
      } finally {
        lock.unlock();
      }
    }

    /** Commits when it is time, until the partition is given up. */
    @Override
    public void run() {
      lock.lock();
      try {
        while (!isOver) {
          long wait = untilCommit();
          if (wait > 0) {
            changed.awaitNanos(wait);
            continue;
          }
          try {
            commit();
          } catch (RuntimeException error) {
            fail(error);
          }
        }
      } catch (InterruptedException stop) {
        over();
      } finally {
        lock.unlock();
      }
      // The broker aborts what is open at once if it can be reached, else the next owner does, or the timeout.
      try {
        if (isOpen && failure == null) producer.abortTransaction();
      } catch (RuntimeException error) {
        LOG.debug("{}: nothing to abort", source, error);
      } finally {
        producer.close(failure == null ? CLOSE_LIMIT : Duration.ZERO);
      }
    }

    private long untilCommit() {
      long now = System.nanoTime();
      if (isOpen) return dueAt - now;
      // An offset expires unless it is committed again, also where no rows come.
      if (position == null) return run.settings.refreshNanos;
      return isNamed ? lastCommit + run.settings.refreshNanos - now : lastCommit + run.settings.intervalNanos - now;
    }

    private String topicIdNow(KafkaFuture<Uuid> asked) {
      return Run.result(asked, "describing topic " + source.topic()).toString();
    }

    private IllegalStateException anew() {
      return new IllegalStateException(
          "topic " + source.topic() + " was deleted and created anew since pipeline " + run.settings.pipeline
              + " has read it: start with a new checkpoint and adopt_checkpoint=True to read the new one");
    }

    private void commit() {
      long begun = System.nanoTime();
      // A consumer goes on at its offset in a new topic of the same name. Asked once its rows are here, while they are sent.
      KafkaFuture<Uuid> asked = run.askTopicId(source.topic());
      if (!isOpen) {
        producer.beginTransaction();
        isOpen = true;
      }
      if (!hasMarker) producer.send(marker());
      producer.sendOffsetsToTransaction(Map.of(source, position.offsetOf(topicId, owner)), group);
      if (!topicIdNow(asked).equals(topicId)) {
        producer.abortTransaction();
        throw anew();
      }
      producer.commitTransaction();
      isOpen = false;
      hasMarker = true;
      isNamed = true;
      lastCommit = begun;
    }

    private void check(TxnWriter writer) {
      if (failure != null) throw failure;
      if (holder != writer) throw new IllegalStateException(source + " is written by another task now");
    }

    private RuntimeException fail(RuntimeException error) {
      if (failure == null) {
        failure = explained(error);
        // Without a task, the partition was only kept, and has moved; a task that is interrupted was told to stop.
        if (holder == null || error instanceof InterruptException) LOG.debug(failure.getMessage(), error);
        else LOG.error(failure.getMessage(), error);
        // The task may be waiting for rows until the end of the batch.
        if (holder != null && holder.task != Thread.currentThread()) holder.task.interrupt();
      }
      over();
      return failure;
    }

    private void over() {
      isOver = true;
      run.partitions.remove(source, this);
      changed.signal();
    }

    private RuntimeException explained(RuntimeException error) {
      for (Throwable each = error; each != null; each = each.getCause()) {
        if (each instanceof ProducerFencedException || each instanceof InvalidProducerEpochException) {
          return new IllegalStateException(
              "pipeline " + run.settings.pipeline + " was taken over by another driver or task, or paused for longer than its"
                  + " transaction may stay open (" + source + ")",
              error);
        }
      }
      return new IllegalStateException(
          "pipeline " + run.settings.pipeline + " could not write rows of " + source + ": " + error.getMessage(), error);
    }

    private ProducerRecord<byte[], byte[]> record(Row row) {
      byte[] key = row.isNullAt(KEY) ? null : (byte[]) row.get(KEY);
      byte[] value = row.isNullAt(VALUE) ? null : (byte[]) row.get(VALUE);
      String topic = row.isNullAt(TOPIC) ? run.settings.topic : row.getString(TOPIC);
      if (topic == null) throw new IllegalArgumentException("a row has no topic, and the sink has no default topic");
      Integer partition = row.isNullAt(PARTITION) ? null : Integer.valueOf(row.getInt(PARTITION));
      if (partition == null && key == null && value != null) {
        partition = Utils.toPositive(Utils.murmur2(value)) % producer.partitionsFor(topic).size();
      }
      RecordHeaders headers = new RecordHeaders();
      if (!row.isNullAt(HEADERS)) {
        for (Object each : row.getList(HEADERS)) {
          Row header = (Row) each;
          headers.add(header.getString(0), header.isNullAt(1) ? null : (byte[]) header.get(1));
        }
      }
      return new ProducerRecord<>(topic, partition, null, key, value, headers);
    }

    /** A record that does not expire: this partition has had an offset. */
    private ProducerRecord<byte[], byte[]> marker() {
      String id = run.settings.transactionalId(source);
      String text =
          "{\"v\":1,\"topic\":\"" + source.topic() + "\",\"partition\":" + source.partition() + ",\"topic_id\":\"" + topicId
              + "\"}";
      return new ProducerRecord<>(
          run.settings.progress, 0, id.getBytes(StandardCharsets.UTF_8), text.getBytes(StandardCharsets.UTF_8));
    }
  }
}
