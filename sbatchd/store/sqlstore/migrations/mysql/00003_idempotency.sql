-- +goose Up
ALTER TABLE idempotency ADD COLUMN digest VARCHAR(64) NOT NULL DEFAULT '';
ALTER TABLE idempotency ADD COLUMN warning BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE idempotency DROP COLUMN warning;
ALTER TABLE idempotency DROP COLUMN digest;
