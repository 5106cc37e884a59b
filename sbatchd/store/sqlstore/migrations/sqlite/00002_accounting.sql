-- +goose Up
CREATE TABLE acct_record (
  kind VARCHAR(16) NOT NULL,
  name VARCHAR(255) NOT NULL,
  doc BLOB NOT NULL,
  PRIMARY KEY (kind, name)
);

CREATE TABLE acct_txn (
  seq INTEGER PRIMARY KEY,
  at BIGINT NOT NULL,
  action VARCHAR(64) NOT NULL,
  actor VARCHAR(255) NOT NULL,
  place TEXT NOT NULL,
  info TEXT NOT NULL
);
CREATE INDEX acct_txn_at ON acct_txn (at);

-- +goose Down
DROP TABLE acct_txn;
DROP TABLE acct_record;
