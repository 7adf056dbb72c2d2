"""The evaluation plan as tables: measured without a device where that can be, else said so."""
