import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * YCSB's records in SQLite with a write-ahead log, as fstrial keeps them: a connection for each thread, writers that wait in a lock, a
 * commit for each write, durable when it returns.
 */
public class SqliteClient extends DB {
  private static final Object WRITING = new Object();
  private static final int FIELDS = 10;
  private Connection connection;
  private PreparedStatement read;
  private PreparedStatement insert;
  private final PreparedStatement[] updates = new PreparedStatement[FIELDS];

  @Override
  public void init() throws DBException {
    StringBuilder columns = new StringBuilder();
    StringBuilder places = new StringBuilder();
    for (int field = 0; field < FIELDS; field++) {
      columns.append(", field").append(field).append(" BLOB NOT NULL");
      places.append(", ?");
    }
    try {
      synchronized (WRITING) {
        connection = DriverManager.getConnection("jdbc:sqlite:" + getProperties().getProperty("file"));
        try (Statement statement = connection.createStatement()) {
          statement.execute("PRAGMA journal_mode = wal");
          statement.execute("PRAGMA synchronous = FULL");
          statement.execute("PRAGMA cache_size = -2048");
          statement.execute("CREATE TABLE IF NOT EXISTS usertable (YCSB_KEY TEXT PRIMARY KEY" + columns + ")");
        }
        read = connection.prepareStatement("SELECT * FROM usertable WHERE YCSB_KEY = ?");
        insert = connection.prepareStatement("INSERT INTO usertable VALUES (?" + places + ")");
        for (int field = 0; field < FIELDS; field++) {
          updates[field] = connection.prepareStatement("UPDATE usertable SET field" + field + " = ? WHERE YCSB_KEY = ?");
        }
      }
    } catch (SQLException error) {
      throw new DBException(error);
    }
  }

  @Override
  public void cleanup() throws DBException {
    try {
      synchronized (WRITING) {
        connection.close();
      }
    } catch (SQLException error) {
      throw new DBException(error);
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    try {
      read.setString(1, key);
      try (ResultSet found = read.executeQuery()) {
        if (!found.next()) {
          return Status.NOT_FOUND;
        }
        for (int field = 0; field < FIELDS; field++) {
          result.put("field" + field, new ByteArrayByteIterator(found.getBytes(field + 2)));
        }
      }
      return Status.OK;
    } catch (SQLException error) {
      return failed(error);
    }
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    try {
      synchronized (WRITING) {
        for (Map.Entry<String, ByteIterator> value : values.entrySet()) {
          PreparedStatement update = updates[Integer.parseInt(value.getKey().substring("field".length()))];
          update.setBytes(1, value.getValue().toArray());
          update.setString(2, key);
          if (update.executeUpdate() != 1) {
            return Status.NOT_FOUND;
          }
        }
      }
      return Status.OK;
    } catch (SQLException error) {
      return failed(error);
    }
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    try {
      synchronized (WRITING) {
        insert.setString(1, key);
        for (int field = 0; field < FIELDS; field++) {
          insert.setBytes(field + 2, values.get("field" + field).toArray());
        }
        insert.executeUpdate();
      }
      return Status.OK;
    } catch (SQLException error) {
      return failed(error);
    }
  }

  @Override
  public Status scan(String table, String key, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }

  @Override
  public Status delete(String table, String key) {
    return Status.NOT_IMPLEMENTED;
  }

  private static Status failed(SQLException error) {
    System.err.println(error);
    return Status.ERROR;
  }
}
