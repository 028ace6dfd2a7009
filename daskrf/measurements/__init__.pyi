from daskrf.measurements.labels import LabelFile as LabelFile
from daskrf.measurements.labels import Labels as Labels
from daskrf.measurements.opening import keys_of as keys_of
from daskrf.measurements.opening import label_table as label_table
from daskrf.measurements.reader import read_column as read_column
from daskrf.measurements.reader import read_labels as read_labels
from daskrf.measurements.reading import Reading as Reading
from daskrf.measurements.words import label_words as label_words
