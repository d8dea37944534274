import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Flink's side of the benchmark: queries over the topics PREFIX-person, PREFIX-auction and PREFIX-bid, each to the topics' present end.
 *
 * Arguments: brokers, topic prefix, folder of the queries, parallelism, then the queries' names. One JVM for all, so that
 * later ones run warm. Settings in its favour: state on the heap, mini-batches, object reuse, a sink that drops its rows.
 * One line a query: name, wall seconds, CPU seconds of the whole process meanwhile, its peak memory in MB.
 */
public class Nexmark {
    private static final String PERSON = "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING";
    private static final String AUCTION =
            "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, expires TIMESTAMP(3), seller BIGINT, category BIGINT";
    private static final String BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING";

    public static void main(String[] args) throws Exception {
        String brokers = args[0], prefix = args[1];
        Path folder = Path.of(args[2]);
        int parallelism = Integer.parseInt(args[3]);
        for (int i = 4; i < args.length; i++) {
            run(brokers, prefix, Files.readString(folder.resolve(args[i] + ".sql")).trim(), args[i], parallelism);
        }
        System.exit(0);
    }

    private static Configuration settings(int parallelism) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", "" + parallelism);
        settings.setString("taskmanager.numberOfTaskSlots", "" + parallelism);
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("state.backend.type", "hashmap");
        settings.setString("execution.checkpointing.interval", "10s");
        settings.setString("execution.checkpointing.dir", Files.createTempDirectory("flink-nexmark").toUri().toString());
        settings.setString("taskmanager.memory.managed.size", "512m");
        settings.setString("taskmanager.memory.network.max", "128m");
        settings.setString("table.exec.mini-batch.enabled", "true");
        settings.setString("table.exec.mini-batch.allow-latency", "2s");
        settings.setString("table.exec.mini-batch.size", "50000");
        settings.setString("table.optimizer.distinct-agg.split.enabled", "true");
        return settings;
    }

    private static String table(String name, String columns, String brokers, String prefix) {
        return "CREATE TABLE " + name + " (" + columns + ", date_time TIMESTAMP(3), extra STRING, "
                + "WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND) WITH ('connector' = 'kafka', 'topic' = '" + prefix + "-" + name
                + "', 'properties.bootstrap.servers' = '" + brokers + "', 'properties.group.id' = 'flink', 'scan.startup.mode' = 'earliest-offset', "
                + "'scan.bounded.mode' = 'latest-offset', 'format' = 'json')";
    }

    private static void run(String brokers, String prefix, String sql, String name, int parallelism) throws Exception {
        Configuration settings = settings(parallelism);
        StreamTableEnvironment tables =
                StreamTableEnvironment.create(StreamExecutionEnvironment.createLocalEnvironment(parallelism, settings));
        settings.toMap().forEach((key, value) -> {
            if (key.startsWith("table.")) {
                tables.getConfig().set(key, value);
            }
        });
        tables.executeSql(table("person", PERSON, brokers, prefix));
        tables.executeSql(table("auction", AUCTION, brokers, prefix));
        tables.executeSql(table("bid", BID, brokers, prefix));
        List<String> columns = new ArrayList<>();
        for (var column : tables.sqlQuery(sql).getResolvedSchema().getColumns()) {
            String type = column.getDataType().getLogicalType().asSerializableString();
            columns.add("`" + column.getName() + "` " + type.replace(" NOT NULL", "").replace(" *ROWTIME*", ""));
        }
        tables.executeSql("CREATE TABLE result_ (" + String.join(", ", columns) + ") WITH ('connector' = 'blackhole')");
        System.gc();
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long began = System.nanoTime(), used = system.getProcessCpuTime();
        tables.executeSql("INSERT INTO result_ " + sql).await();
        double wall = (System.nanoTime() - began) / 1e9, cpu = (system.getProcessCpuTime() - used) / 1e9;
        String peak = Files.readAllLines(Path.of("/proc/self/status")).stream().filter(line -> line.startsWith("VmHWM"))
                .map(line -> line.replaceAll("\\D", "")).findFirst().orElse("0");
        System.out.printf(Locale.ROOT, "%s %.3f %.3f %d%n", name, wall, cpu, Long.parseLong(peak) / 1024);
    }
}
